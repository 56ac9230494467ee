"""What happens to a server and to the network before it; each returns when it is over, and says how often it struck.

The soak's list and the tests of single faults (``tests/faults``) have these in common.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from soak.subjects import Subject

SECONDS = 3.0
CUTS = 15


class Line(Protocol):
    """A network that does as it is told: a proxy, or several."""

    @property
    def cuts(self) -> int: ...
    def pass_on(self) -> None: ...
    def delay(self, seconds: float) -> None: ...
    def silence(self) -> None: ...
    def refuse(self) -> None: ...
    def reset(self) -> int: ...
    def cut_after(self, pattern: bytes = b"", times: int = 1) -> None: ...


class Ground(Protocol):
    """Where it happens."""

    @property
    def subject(self) -> Subject: ...
    @property
    def proxy(self) -> Line: ...
    async def until(self, condition: Callable[[], bool], seconds: float) -> float: ...


async def restart_fast(ground: Ground) -> int:
    """The server is stopped as its operator would, and started after a second."""
    return await _restart(ground, "fast")


async def restart_immediate(ground: Ground) -> int:
    """The server crashes, and is started after a second."""
    return await _restart(ground, "immediate")


async def _restart(ground: Ground, mode: str) -> int:
    await asyncio.to_thread(ground.subject.stop, mode)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(ground.subject.start)
    return 1


async def kill_every_connection(ground: Ground) -> int:
    """The server ends every connection, ten times a second."""
    end, killed = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        killed += await ground.subject.kill()
        await asyncio.sleep(0.1)
    return killed


async def reset(ground: Ground) -> int:
    """Every connection is reset, again and again."""
    end, broken = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        broken += ground.proxy.reset()
        await asyncio.sleep(0.07)
    return broken


async def refuse(ground: Ground) -> int:
    """Every connection is reset, and no new one accepted."""
    ground.proxy.refuse()
    ground.proxy.reset()
    await asyncio.sleep(SECONDS)
    ground.proxy.pass_on()
    return 1


async def silence(ground: Ground) -> int:
    """Nothing arrives, and no one is told."""
    ground.proxy.silence()
    await asyncio.sleep(SECONDS)
    ground.proxy.pass_on()
    return 1


async def half_open(ground: Ground) -> int:
    """What was connected is dead, and no one says so; what connects anew is well."""
    ground.proxy.silence()
    ground.proxy.pass_on()
    return 1


async def cut_after_any(ground: Ground) -> int:
    """What was asked is done, and the connection reset before the answer; fifteen times."""
    return await _cut(ground, b"")


async def cut_after_commit(ground: Ground) -> int:
    """A transaction is committed, and the connection reset before the answer; fifteen times."""
    return await _cut(ground, ground.subject.commits)


async def _cut(ground: Ground, pattern: bytes) -> int:
    before = ground.proxy.cuts
    for _ in range(CUTS):
        ground.proxy.cut_after(pattern)
        wanted = ground.proxy.cuts + 1
        await ground.until(lambda wanted=wanted: ground.proxy.cuts >= wanted, 20)  # type: ignore[misc]
    ground.proxy.pass_on()
    return ground.proxy.cuts - before


async def delay(ground: Ground) -> int:
    """Everything takes a tenth of a second longer, each way."""
    ground.proxy.delay(0.1)
    await asyncio.sleep(SECONDS)
    ground.proxy.pass_on()
    return 1
