"""Work goes on by itself after every fault, and nothing is lost or done twice under one fence.

Real worker processes and producers, a real server behind a proxy. Afterwards: every worker works and every producer is
acknowledged within two polling intervals of the fault's end (where the network was silent, two after the silence has
been noticed, by the time limit of the store), what was acknowledged is there and has ended, the log
replays, and all that anyone was told fits it.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from soak.network import (
    CUTS,
    cut_after_any,
    cut_after_commit,
    delay,
    half_open,
    kill_every_connection,
    refuse,
    reset,
    restart_fast,
    restart_immediate,
    silence,
)
from soak.subjects import SUBJECTS, Subject, behind_a_proxy
from tests.faults.scene import POLL, SLACK, Scene


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


Fault = Callable[[Scene], Awaitable[int]]
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
OFTEN: dict[Fault, int] = {kill_every_connection: 21, reset: 21, cut_after_any: CUTS, cut_after_commit: CUTS}
"""How many connections each of these must have ended, to prove anything."""
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
    assert await fault(scene) >= OFTEN.get(fault, 1)
    ended = time.monotonic()
    # A call that begins just before the first one notices takes a time limit of its own.
    bound = 2 * POLL + (2 * scene.subject.notice if fault in UNSEEN else 0.0)
    took = await scene.until(lambda: scene.all_have_worked_since(ended), bound + SLACK)
    record_property("resumed_after", round(took, 2))
    print(f"{fault.__name__}: resumed after {took:.2f} s, told {[dict(p.refused) for p in scene.producers]}")
    await scene.end()
    await scene.check()
