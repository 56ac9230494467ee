"""A worker whose clock is wrong: the clock of the store rules, and nothing is early, late or taken over for it."""

import asyncio

import pytest

import dibs
from dibs.broker.connect import open_store
from dibs.clock import Clock
from tests.chaos.crew import Crew
from tests.failures.conftest import SERVERS

HOUR = 3600.0
LEASE = 2.0
SECOND = 1_000_000


@pytest.mark.parametrize("url", ["served", *SERVERS], indirect=True)
@pytest.mark.parametrize("off", [HOUR, -HOUR], ids=["ahead", "behind"])
async def test_a_worker_whose_clock_is_an_hour_off(app: dibs.App, kept: str, crew: Crew, off: float) -> None:
    """A file has the clock of its machine, which all processes there have: tests/stores/sqlite/test_clock.py."""
    store = open_store(kept, Clock())
    wrong = crew(app.url, "wrong")
    assert await asyncio.to_thread(wrong.hear) == "ready"
    wrong.ask("set_clock", seconds=off)
    began = await store.now()

    # What is there is due, and what is for later is not, whoever asks and whoever enqueued it.
    mine = await app.enqueue("t", delay=HOUR / 2, queue="later")
    theirs = wrong.ask("enqueue", delay=HOUR / 2, queue="later")["id"]
    made = int(theirs.replace("-", "")[:12], 16) / 1000  # an id is made where it is enqueued
    assert abs(made - began / SECOND - off) < HOUR / 2
    assert wrong.ask("claim", queues=["later"]) is None
    assert await app.claim("right", queues=["later"]) is None
    for id in (mine.id, theirs):
        job = await app.get(id)
        assert job is not None
        assert 0 <= job.due_us - began - HOUR / 2 * SECOND < 60 * SECOND

    # A lease that runs is no one's to take, and one that ran out is.
    ours = await app.enqueue("t", queue="ours")
    held = await app.claim("right", queues=["ours"], lease=LEASE)
    assert held is not None
    assert wrong.ask("reap") is None
    assert wrong.ask("claim", queues=["ours"]) is None
    await held.extend()
    taken = wrong.ask("enqueue", queue="theirs")["id"]
    claim = wrong.ask("claim", queues=["theirs"], lease=LEASE)
    assert claim["id"] == taken
    assert await app.claim("right", queues=["theirs"]) is None
    job = await app.get(taken)
    assert job is not None
    assert job.claimed_us is not None
    assert job.lease_expires_us == job.claimed_us + LEASE * SECOND
    second = await app.claim("right", queues=["theirs"], lease=60, wait=20)
    assert second is not None
    assert (second.id, second.fence) == (taken, 2)
    assert await store.now() >= job.lease_expires_us
    assert wrong.ask("complete", id=taken) == "lease_lost"
    await second.complete()
    third = await asyncio.to_thread(wrong.ask, "claim", queues=["ours"], lease=60, wait=20)
    assert (third["id"], third["fence"]) == (ours.id, 2)
    assert wrong.ask("complete", id=ours.id) is None

    ended = await store.now()
    times = [event.at_us for id in (mine.id, theirs, ours.id, taken) for event in await app.log(id)]
    assert began <= min(times) <= max(times) <= ended
    assert (await app.verify()).ok
    await store.close()
