"""One key, one job, however many processes enqueue with it in the same moment."""

import asyncio

import pytest

import dibs
from tests.chaos.crew import Crew, at_once
from tests.failures.conftest import SERVERS

PROCESSES, EACH = 4, 8


@pytest.mark.parametrize("url", ["served", *SERVERS], indirect=True)
async def test_enqueues_with_one_key_from_several_processes_make_one_job(url: str, crew: Crew) -> None:
    """On SQLite: tests/races/test_claim_races.py."""
    actors = [crew(url, f"actor-{index}") for index in range(PROCESSES)]
    for actor in actors:
        assert await asyncio.to_thread(actor.hear) == "ready"
        await asyncio.to_thread(actor.ask, "counts")  # it is connected
    async with dibs.App(url) as app:
        for number in range(4):
            for field in ("idempotency_key", "unique_key", "id"):
                same = {field: f"same-{field}-{number}", "params": {"number": number}}
                begin = at_once()
                for actor in actors:
                    actor.tell("enqueue_many_times", times=EACH, at=begin, **same)
                answers = [answer for actor in actors for answer in await asyncio.to_thread(actor.hear)]
                assert len(answers) == 32
                assert len({answer["id"] for answer in answers}) == 1
                assert sum(not answer["duplicate"] for answer in answers) == 1
        assert (await app.counts()).pending == 12
        assert (await app.verify()).ok
