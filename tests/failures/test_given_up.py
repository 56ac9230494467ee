"""Who gives a call up leaves nothing of it behind: not its rows to whoever comes next, and no job in no one's hands."""

import asyncio

import pytest

import dibs
from dibs.domain.job import Status
from tests.failures.conftest import SHARED

JOBS = 40


@pytest.mark.parametrize("url", ["memory", *SHARED], indirect=True)
async def test_a_claim_that_is_given_up_reaches_no_one_else(url: str) -> None:
    """On one connection where there are such, so that the next call has the one that was given up."""
    one = "?pool=1" if url.startswith(("postgresql", "mysql")) else ""
    async with dibs.App(url + one) as app:
        await app.enqueue_many([dibs.NewJob("t", number, id=f"job-{number}") for number in range(JOBS)])
        notes = [(await app.enqueue("note", number, queue="notes")).id for number in range(JOBS)]
        taken: list[str] = []
        for number in range(JOBS // 2):
            running = asyncio.ensure_future(app.claim_many("first", limit=2, queues=["default"], lease=60))
            await asyncio.sleep(0.0003 * (number % 10))
            running.cancel()
            [claims] = await asyncio.gather(running, return_exceptions=True)
            job, counted = await asyncio.gather(app.get(notes[number]), app.claim("second", id=notes[number], lease=60))
            assert job is not None
            assert (job.id, job.params) == (notes[number], number), "not what was asked for before"
            assert counted is not None
            assert (counted.id, counted.params) == (notes[number], number)
            await counted.complete()
            if not isinstance(claims, BaseException):
                taken += [claim.id for claim in claims]
                await asyncio.gather(*(claim.complete() for claim in claims))

        # What was given up is given back; what was not, was taken by who was told so, once.
        async with asyncio.timeout(20):
            while (await app.counts()).claimed:  # noqa: ASYNC110 - it is on its way
                await asyncio.sleep(0.01)
        assert len(taken) == len(set(taken))
        for number in range(JOBS):
            job = await app.get(f"job-{number}")
            assert job is not None
            assert job.status is (Status.COMPLETED if job.id in taken else Status.PENDING)
            assert job.attempts == (job.id in taken)
        assert (await app.verify()).ok
