"""Calls inside the user's own transaction: they commit or vanish with it, and leaving the block knows that."""
# ruff: noqa: ASYNC110, PT012 - the keeper is looked at until it rests; what a block raises is the subject

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

import dibs
from dibs import App, FakeClock, Status


@pytest.fixture
async def shop(tmp_path: Path, clock: FakeClock) -> AsyncIterator[App]:
    async with App(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock) as app:
        await app.counts()
        yield app


@pytest.fixture
def db(shop: App, tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.set_busy_timeout(10_000)  # the store writes too
    connection.execute("CREATE TABLE sold (id TEXT)")
    yield connection
    connection.close()


async def held(app: App) -> dibs.Claim:
    await app.enqueue("t", max_attempts=1)
    claim = await app.claim(lease=30)
    assert claim is not None
    return claim


async def status_of(app: App, claim: dibs.Claim) -> Status:
    job = await app.get(claim.id)
    assert job is not None
    return job.status


async def test_enqueue_commits_or_vanishes_with_the_transaction(shop: App, db: apsw.Connection) -> None:
    for end in ("ROLLBACK", "COMMIT"):
        db.execute("BEGIN IMMEDIATE")
        await shop.enqueue("t", end, connection=db)
        await shop.enqueue_many([dibs.NewJob("t", end)], connection=db)
        db.execute(end)
    assert [job.params async for job in shop.find()] == ["COMMIT", "COMMIT"]


async def test_complete_in_a_transaction_that_is_committed(shop: App, db: apsw.Connection) -> None:
    claim = await held(shop)
    async with claim:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO sold VALUES (?)", (claim.id,))
        await claim.complete(5, connection=db)
        db.execute("COMMIT")
    job = await shop.get(claim.id)
    assert job is not None
    assert (job.status, job.result) == (Status.COMPLETED, 5)


async def test_complete_in_a_transaction_that_ends_after_the_block(shop: App, db: apsw.Connection) -> None:
    claim = await held(shop)
    db.execute("BEGIN IMMEDIATE")
    async with claim:
        await claim.complete(connection=db)
    db.execute("COMMIT")
    assert await status_of(shop, claim) is Status.COMPLETED


async def test_an_exception_that_rolls_back_fails_the_job(shop: App, db: apsw.Connection) -> None:
    claim = await held(shop)
    with pytest.raises(ZeroDivisionError):
        async with claim:
            with db:
                db.execute("INSERT INTO sold VALUES (?)", (claim.id,))
                await claim.complete(connection=db)
                _ = 1 / 0
    assert await status_of(shop, claim) is Status.FAILED
    assert db.execute("SELECT count(*) FROM sold").get == 0


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_an_exception_while_the_transaction_is_open_leaves_it_to_the_transaction(
    shop: App, db: apsw.Connection, error: type[BaseException]
) -> None:
    claim = await held(shop)
    with pytest.raises(error), db:
        db.execute("INSERT INTO sold VALUES (?)", (claim.id,))
        async with claim:
            await claim.complete(connection=db)
            raise error
    assert await status_of(shop, claim) is Status.CLAIMED, "no one can say yet that it failed; its lease will"


async def test_a_cancellation_that_rolls_back_gives_the_job_back(shop: App, db: apsw.Connection) -> None:
    claim = await held(shop)
    with pytest.raises(asyncio.CancelledError):
        async with claim:
            with db:
                db.execute("INSERT INTO sold VALUES (?)", (claim.id,))
                await claim.complete(connection=db)
                raise asyncio.CancelledError
    assert await status_of(shop, claim) is Status.PENDING


async def test_an_exception_after_the_commit_changes_nothing(shop: App, db: apsw.Connection) -> None:
    claim = await held(shop)
    with pytest.raises(ZeroDivisionError):
        async with claim:
            with db:
                db.execute("INSERT INTO sold VALUES (?)", (claim.id,))
                await claim.complete(connection=db)
            _ = 1 / 0
    assert await status_of(shop, claim) is Status.COMPLETED
    assert not claim.lost


async def test_after_a_rollback_the_claim_is_unsettled(shop: App, db: apsw.Connection) -> None:
    claim = await held(shop)
    async with claim:
        db.execute("BEGIN IMMEDIATE")
        await claim.complete("first", connection=db)
        db.execute("ROLLBACK")
        assert await status_of(shop, claim) is Status.CLAIMED
        await claim.complete("second")
    job = await shop.get(claim.id)
    assert job is not None
    assert job.result == "second"


async def test_a_beat_after_the_commit_does_not_call_the_claim_lost(
    shop: App, db: apsw.Connection, clock: FakeClock
) -> None:
    claim = await held(shop)
    async with claim:
        db.execute("BEGIN IMMEDIATE")
        await claim.complete(connection=db)
        db.execute("COMMIT")
        clock.advance(10)
        while shop.runtime.keeper._held:
            await asyncio.sleep(0)
        assert not claim.lost


async def test_a_stale_holder_is_told_inside_its_transaction(shop: App, db: apsw.Connection) -> None:
    claim = await held(shop)
    await shop.cancel(claim.id)
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(dibs.LeaseLost):
        await claim.complete(connection=db)
    db.execute("ROLLBACK")


def test_the_sync_twin_uses_the_callers_connection(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path / 'jobs.db'}").sync as queue:
        queue.counts()
        db = apsw.Connection(str(tmp_path / "jobs.db"))
        db.execute("BEGIN IMMEDIATE")
        queue.enqueue("t", connection=db)
        db.execute("COMMIT")
        claim = queue.claim()
        assert claim is not None
        with claim:
            db.execute("BEGIN IMMEDIATE")
            claim.complete("done", connection=db)
            db.execute("COMMIT")
        assert queue.wait(claim.id).result == "done"
        db.close()
