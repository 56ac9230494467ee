"""Jobs for next year: they wait in the store, and no worker has them in its hands, or in its memory."""

import tracemalloc
from typing import Any

import pytest

import dibs
from tests.failures.conftest import SHARED
from tests.worker.conftest import work

YEAR = 365 * 86_400
MANY, SIZE = 2_000, 4_000


@pytest.mark.parametrize("url", ["memory", *SHARED], indirect=True)
async def test_what_is_due_next_year_is_in_no_workers_hands(app: dibs.App) -> None:
    """What a claim costs beside them is counted or measured elsewhere: the plans, tests/stores/test_flat_cost.py."""
    ran: list[int] = []

    @app.task
    async def note(number: int, text: str) -> None:
        ran.append(number)

    async def enqueue(number: int, **options: Any) -> None:
        new = [note.options(**options).job(n, "x" * SIZE) for n in range(number)]
        for begin in range(0, number, 500):
            await app.enqueue_many(new[begin : begin + 500])

    await enqueue(20)
    await work(app, concurrency=2)  # all that is loaded and opened once
    await enqueue(MANY, delay=YEAR, priority=10)
    await enqueue(20)
    tracemalloc.start()
    try:
        await work(app, concurrency=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert sorted(ran) == sorted([*range(20)] * 2)
    assert peak < MANY * SIZE / 4, "they were fetched"
    counts = await app.counts()
    assert (counts.scheduled, counts.claimed, counts.completed) == (MANY, 0, 40)
    page = await app.find(status="pending", limit=100)
    assert {(job.fence, job.attempts) for job in page.items} == {(0, 0)}
