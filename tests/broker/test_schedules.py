"""A process that stands still between reading a schedule and enqueueing its tick does no harm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from dibs.broker.local import LocalBroker
from dibs.broker.maintenance import Maintenance
from dibs.clock import FakeClock
from dibs.domain.job import Filter
from dibs.domain.settings import Config
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.broker.schedule import jobs_of, plan
from dibs.testing.conformance.broker.verbs import claim_one, complete, settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.domain.job import Document, Draft, Job
    from dibs.store import Refusal

HOUR = 3600


class StandingStore(MemoryStore):
    """Holds up one call, before it is done, until it is let go."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.hold_insert = self.hold_put = False
        self.held = asyncio.Event()
        self.let_go = asyncio.Event()

    async def insert(self, groups: Sequence[Sequence[Draft]], *, connection: Any = None) -> list[list[Job] | Refusal]:
        if self.hold_insert:
            self.hold_insert = False
            await self._stand()
        return await super().insert(groups, connection=connection)

    async def put(
        self, name: str, value: bytes | None, *, expect: int | None = None, keep_us: int | None = None
    ) -> Document | None:
        if self.hold_put:
            self.hold_put = False
            await self._stand()
        return await super().put(name, value, expect=expect, keep_us=keep_us)

    async def _stand(self) -> None:
        self.held.set()
        await self.let_go.wait()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> StandingStore:
    return StandingStore(clock)


async def test_a_tick_that_ended_hours_ago_is_not_enqueued_again(store: StandingStore, clock: FakeClock) -> None:
    slow, quick = (LocalBroker(store, clock, Config.of(retention=0)) for _ in range(2))
    await slow.publish([plan(when=HOUR)])
    clock.advance(HOUR)
    store.hold_insert = True
    standing = asyncio.create_task(slow.tick(["report"]))
    await store.held.wait()
    await quick.tick(["report"])
    await settle(quick, complete(await claim_one(quick)))
    for _ in range(20):
        clock.advance(HOUR)
        await quick.tick(["report"])
        await settle(quick, complete(await claim_one(quick)))
        await Maintenance(store, clock, Config.of()).prune()
    store.let_go.set()
    await standing

    assert len(await jobs_of(quick)) == 21
    assert (await quick.find(Filter(status="pending"), limit=10, cursor=None))[0] == []
    assert (await quick.tick(["report"])).enqueued == 0  # nor was the schedule set back


async def test_who_moves_on_too_late_does_not_set_the_schedule_back(store: StandingStore, clock: FakeClock) -> None:
    slow, quick = (LocalBroker(store, clock, Config.of()) for _ in range(2))
    await slow.publish([plan(when=10)])
    clock.advance(10)
    store.hold_put = True
    standing = asyncio.create_task(slow.tick(["report"]))
    await store.held.wait()
    await quick.tick(["report"])
    clock.advance(10)
    await quick.tick(["report"])
    [before] = await quick.schedules()
    store.let_go.set()
    await standing

    [after] = await quick.schedules()
    assert (after.last_tick_at, len(await jobs_of(quick))) == (before.last_tick_at, 2)


async def test_a_pause_that_comes_in_between_stays(store: StandingStore, clock: FakeClock) -> None:
    slow, quick = (LocalBroker(store, clock, Config.of()) for _ in range(2))
    await slow.publish([plan(when=10)])
    clock.advance(10)
    store.hold_put = True
    standing = asyncio.create_task(slow.tick(["report"]))
    await store.held.wait()
    await quick.pause_schedule("report", by="olga")
    store.let_go.set()
    await standing

    [info] = await quick.schedules()
    assert (info.status, info.paused_by) == ("paused", "olga")
    clock.advance(60)
    assert (await slow.tick(["report"])).enqueued == 0
