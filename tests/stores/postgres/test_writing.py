"""Writes of which a part is committed before the rest is tried again."""

from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.job import Outcome
from dibs.domain.transitions import Write
from dibs.stores.postgres import PostgresStore, writing
from dibs.testing.conformance.builders import claim, completed, enqueue, failed, new_jobs, settle


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
