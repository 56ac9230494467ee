"""Writes of which a part is committed before the rest is tried again, and rows that change on the way."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from dibs.clock import Clock, FakeClock
from dibs.domain import transitions
from dibs.domain.job import Outcome
from dibs.domain.transitions import Write
from dibs.stores.postgres import PostgresStore, writing
from dibs.stores.postgres.statements import statement
from dibs.testing.conformance.builders import claim, claim_one, completed, enqueue, failed, new_jobs, settle


@pytest.mark.parametrize("error", [asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError])
async def test_what_was_completed_is_not_asked_for_again(
    url: str, error: type[asyncpg.PostgresError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was redriven before the other write was tried again; whoever completed it must not be told that it is lost."""
    store, other = PostgresStore(url, FakeClock()), PostgresStore(url, FakeClock())
    await enqueue(store, *new_jobs(2))
    one, two = await claim(store)
    write, tries = writing._Writing.write, []

    async def once_in_vain(self: Any, writes: Sequence[Write]) -> Any:
        tries.append(len(writes))
        if len(tries) == 1:
            assert await settle(other, transitions.redrive(one.id)) == [Outcome.APPLIED]
            raise error("others were faster")
        return await write(self, writes)

    monkeypatch.setattr(writing._Writing, "write", once_in_vain)
    assert await settle(store, completed(one), failed(two)) == [Outcome.APPLIED, Outcome.APPLIED]
    await store.close()
    await other.close()


CHANGES: dict[str, tuple[list[Any], list[tuple[Any, ...]]]] = {
    "claim": ([-1, 1, 1, [], [], [], [1], ["w"], ["t"], [None], 1, False], [(1, None)]),
    "complete": ([[b""]], []),
    "extend": ([[0.5], ["n"]], [(1, "busy")]),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_changes_before_its_lock_is_left_alone(url: str, own: asyncpg.Connection, name: str) -> None:
    """A row is written where its lock has found it, which the snapshot does not show; whoever asks again is served."""
    store, asking = PostgresStore(url, Clock()), await asyncpg.connect(url)
    await enqueue(store, *new_jobs(1))
    rest, expected = CHANGES[name]
    write = None if name == "claim" else completed(await claim_one(store))
    wish = [None, None] if write is None or write.ref is None else [[write.id], [write.ref.fence], [write.ref.token]]
    waiting = r"\1AND pg_advisory_xact_lock_shared(1) IS NOT NULL \2"
    sql, number = re.subn(r"(\s)((?:ORDER BY [^()]*)?FOR UPDATE SKIP LOCKED)", waiting, statement(name))
    assert number == 1

    await own.execute("SELECT pg_advisory_lock(1)")
    asked = asyncio.create_task(asking.fetch(sql, None, *wish, *rest))
    blocked = f"SELECT EXISTS (SELECT FROM pg_locks WHERE pid = {asking.get_server_pid()} AND NOT granted)"
    while not await own.fetchval(blocked):
        pass
    await own.execute("UPDATE dibs_job SET updated = updated")
    await own.execute("SELECT pg_advisory_unlock(1)")
    assert [(row[1], row[3]) if write is None else row[:2] for row in await asked] == expected

    if write is None:
        assert len(await claim(store)) == 1
    else:
        assert await settle(store, write) == [Outcome.APPLIED]
    await asking.close()
    await store.close()
