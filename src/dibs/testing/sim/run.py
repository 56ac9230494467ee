"""Run one world to its end, and prove the promises on it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.domain.errors import InvalidRequest, Problem
from dibs.stores.memory import MemoryStore
from dibs.testing.history import check, read_audit
from dibs.testing.sim.loop import SimClock, SimLoop, Stuck
from dibs.testing.sim.result import Result
from dibs.testing.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dibs.store import Store
    from dibs.testing.history import Report
    from dibs.testing.sim.plan import Plan


def simulate(plan: Plan) -> Result:
    """Run a plan. It takes no real time but that of the code itself, and depends on nothing outside."""
    with _stores(plan.store) as open_store, _quiet():
        loop = SimLoop()
        try:
            world = World(plan, loop, open_store)
            try:
                report = loop.run_until_complete(_run(world))
            except Stuck:
                report = None
                world.trouble.append("someone waits for ever, and nothing is left to wake them")
            trouble = [*world.trouble, *(f"unhandled: {text}" for text in loop.unhandled)]
            fate = world.fate
            return Result(plan, fate.step, round(loop.now, 3), tuple(fate.trace), report, tuple(trouble))
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def _run(world: World) -> Report:
    await world.run()
    steps = world.fate.step
    items = await read_audit(world.store)
    now = await world.store.now()
    world.trouble += world.witness.compare(items, world.blamed_us())
    await world.end()
    world.fate.step = steps
    return check(world.history, items, final=not world.trouble, now_us=now, slack_us=0)


@contextmanager
def _stores(kind: str) -> Iterator[Callable[[SimClock], Store]]:
    if kind == "memory":
        yield MemoryStore
        return
    if kind != "sqlite":
        raise InvalidRequest([Problem("store", f"{kind!r} cannot be simulated; there are memory and sqlite")])
    from dibs.stores.sqlite import SqliteStore

    folder = Path(tempfile.mkdtemp(prefix="dibs-sim-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108 - only faster
    opened: list[SqliteStore] = []

    def open_store(clock: SimClock) -> SqliteStore:
        store = SqliteStore(folder / "world.db", clock)
        opened.append(store)
        return store

    try:
        yield open_store
    finally:
        asyncio.run(_close(opened))
        shutil.rmtree(folder, ignore_errors=True)


async def _close(stores: Iterable[Store]) -> None:
    for store in stores:
        await store.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Worlds are full of warnings, and that is the point of them."""
    logger = logging.getLogger("dibs")
    level, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = level
