"""What is merged stays within what a single caller may send, and what is named is checked first."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from dibs.broker.local import LocalBroker
from dibs.clock import FakeClock
from dibs.domain.errors import InvalidRequest
from dibs.domain.job import Draft, Job
from dibs.domain.newjob import NewJob
from dibs.domain.settings import MAX_BATCH, MAX_BATCH_BYTES, Config
from dibs.store import Refusal
from dibs.stores.memory import MemoryStore


class Measuring(MemoryStore):
    """Notes how much it is asked to insert at once."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.inserts: list[tuple[int, int]] = []  # jobs, bytes

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        drafts = [draft for group in groups for draft in group]
        self.inserts.append((len(drafts), sum(len(draft.params_json) for draft in drafts)))
        return await super().insert(groups, connection=connection)


@pytest.mark.parametrize(("calls", "size"), [(40, 1_000_000), (2500, 10)], ids=["large", "many"])
async def test_merged_enqueues_are_no_larger_than_one_may_be(calls: int, size: int) -> None:
    clock = FakeClock()
    store = Measuring(clock)
    broker = LocalBroker(store, clock, Config.of())

    await asyncio.gather(*(broker.enqueue([NewJob("t", "x" * size)]) for _ in range(calls)))

    assert sum(jobs for jobs, _ in store.inserts) == calls
    assert max(jobs for jobs, _ in store.inserts) <= MAX_BATCH
    assert max(weight for _, weight in store.inserts) <= MAX_BATCH_BYTES
    assert len(store.inserts) < calls / 10


@pytest.mark.parametrize("bad", ["", "a\ud800", "..", object(), 7])
@pytest.mark.parametrize("verb", ["redrive", "purge"])
async def test_a_dry_run_checks_what_it_is_given(verb: str, bad: Any) -> None:
    clock = FakeClock()
    broker = LocalBroker(MemoryStore(clock), clock, Config.of())

    with pytest.raises(InvalidRequest) as caught:
        await getattr(broker, verb)(["fine", bad], dry_run=True)

    assert caught.value.fields == ("ids[1]",)
