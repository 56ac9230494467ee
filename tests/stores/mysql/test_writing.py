"""Writes of which a part is committed before the rest is tried again."""

from collections.abc import Sequence
from typing import Any

import pytest
from asyncmy.errors import OperationalError

from dibs.clock import FakeClock
from dibs.domain import transitions
from dibs.domain.job import Outcome
from dibs.domain.transitions import Write
from dibs.stores.mysql import MysqlStore, writing
from dibs.stores.mysql.errors import CHANGED, DEADLOCK, LOCK_WAIT
from dibs.testing.conformance.builders import claim, completed, enqueue, failed, new_jobs, settle


@pytest.mark.parametrize("code", [DEADLOCK, LOCK_WAIT, CHANGED])
async def test_what_was_completed_is_not_asked_for_again(url: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was redriven before the other write was tried again; whoever completed it must not be told that it is lost."""
    store, other = MysqlStore(url, FakeClock()), MysqlStore(url, FakeClock())
    await enqueue(store, *new_jobs(2))
    one, two = await claim(store)
    judge = writing._judge

    async def once_in_vain(turn: Any, writes: Sequence[Write]) -> Any:
        monkeypatch.undo()
        assert await settle(other, transitions.redrive(one.id)) == [Outcome.APPLIED]
        raise OperationalError(code, "others were faster")

    monkeypatch.setattr(writing, "_judge", once_in_vain)
    assert await settle(store, completed(one), failed(two)) == [Outcome.APPLIED, Outcome.APPLIED]
    assert writing._judge is judge, "it was tried again"
    await store.close()
    await other.close()
