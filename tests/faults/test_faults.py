"""Work goes on by itself after every fault, and nothing is lost or done twice under one fence.

Real worker processes and producers, a real server behind a proxy. Afterwards: every worker works and every producer is
acknowledged within two polling intervals of the fault's end (where the network was silent, two after the silence has
been noticed, by the time limit of the store), what was acknowledged is there and has ended, the log
replays, and all that anyone was told fits it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.scene import POLL, SLACK, Scene
from tests.faults.subjects import SUBJECTS, Subject, behind_a_proxy

FAULT_SECONDS = 3.0


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    with SUBJECTS[request.param]() as subject:
        yield subject


@pytest.fixture
async def scene(subject: Subject, tmp_path: Path) -> AsyncIterator[Scene]:
    with behind_a_proxy(subject) as proxy:
        scene = Scene(subject, proxy, tmp_path)
        try:
            await scene.begin()
            yield scene
        finally:
            proxy.pass_on()
            await scene.close()


# The faults: each returns when it is over


async def restart_fast(scene: Scene) -> None:
    await _restart(scene, "fast")


async def restart_immediate(scene: Scene) -> None:
    await _restart(scene, "immediate")


async def _restart(scene: Scene, mode: str) -> None:
    await asyncio.to_thread(scene.subject.stop, mode)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(scene.subject.start)


async def kill_every_connection(scene: Scene) -> None:
    end, killed = time.monotonic() + FAULT_SECONDS, 0
    while time.monotonic() < end:
        killed += await scene.subject.kill()
        await asyncio.sleep(0.1)
    assert killed > 20


async def reset(scene: Scene) -> None:
    end, broken = time.monotonic() + FAULT_SECONDS, 0
    while time.monotonic() < end:
        broken += scene.proxy.reset()
        await asyncio.sleep(0.07)
    assert broken > 20


async def refuse(scene: Scene) -> None:
    scene.proxy.refuse()
    scene.proxy.reset()
    await asyncio.sleep(FAULT_SECONDS)
    scene.proxy.pass_on()


async def silence(scene: Scene) -> None:
    scene.proxy.silence()
    await asyncio.sleep(FAULT_SECONDS)
    scene.proxy.pass_on()


async def half_open(scene: Scene) -> None:
    """What was connected is dead, and no one says so; what connects anew is well."""
    scene.proxy.silence()
    scene.proxy.pass_on()


async def cut_after_any(scene: Scene) -> None:
    await _cut(scene, b"")


async def cut_after_commit(scene: Scene) -> None:
    await _cut(scene, scene.subject.commits)


async def _cut(scene: Scene, pattern: bytes) -> None:
    before = scene.proxy.cuts
    for _ in range(15):
        scene.proxy.cut_after(pattern)
        wanted = scene.proxy.cuts + 1
        await scene.until(lambda wanted=wanted: scene.proxy.cuts >= wanted, 20)  # type: ignore[misc]
    scene.proxy.pass_on()
    assert scene.proxy.cuts - before >= 15


async def delay(scene: Scene) -> None:
    scene.proxy.delay(0.1)
    await asyncio.sleep(FAULT_SECONDS)
    scene.proxy.pass_on()


Fault = Callable[[Scene], Awaitable[None]]
FAULTS: list[Fault] = [
    restart_fast,
    restart_immediate,
    kill_every_connection,
    reset,
    refuse,
    silence,
    half_open,
    cut_after_any,
    cut_after_commit,
    delay,
]
UNSEEN = (silence, half_open)
ESSENTIAL: dict[str, list[Fault]] = {
    "postgresql": FAULTS,
    "mariadb": [kill_every_connection, silence, cut_after_commit],
    "redis": [kill_every_connection, silence, cut_after_commit],
}
"""What is tried each time; the rest takes long (./dev test tests/faults -m long)."""
CASES = [
    pytest.param(
        name,
        fault,
        id=f"{name}-{fault.__name__}",
        marks=[
            *([] if fault in ESSENTIAL[name] else [pytest.mark.long]),
            *([pytest.mark.serial] if fault in UNSEEN else []),  # the bound on them is of seconds
        ],
    )
    for name in SUBJECTS
    for fault in FAULTS
]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("subject", "fault"), CASES, indirect=["subject"])
async def test_work_goes_on(scene: Scene, fault: Fault, record_property: Callable[[str, object], None]) -> None:
    await fault(scene)
    ended = time.monotonic()
    # A call that begins just before the first one notices takes a time limit of its own.
    bound = 2 * POLL + (2 * scene.subject.notice if fault in UNSEEN else 0.0)
    took = await scene.until(lambda: scene.all_have_worked_since(ended), bound + SLACK)
    record_property("resumed_after", round(took, 2))
    print(f"{fault.__name__}: resumed after {took:.2f} s, told {[dict(p.refused) for p in scene.producers]}")
    await scene.end()
    await scene.check()
