"""The simulator: worlds repeat to the byte, end, break nothing, and a broken promise is found and made small."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from dibs import InvalidRequest
from dibs.domain import transitions
from dibs.domain.job import Outcome
from dibs.testing.sim import Fault, Plan, draw, shrink, simulate
from dibs.testing.sim.loop import SimLoop, Stuck

pytestmark = pytest.mark.timeout(240)  # worlds compute all the time: a busy machine is slower in proportion
STORES = ["memory", "sqlite"]

KEPT = [
    Plan(seed=2),  # a claim delivered twice: what the second one got is known to no one
    Plan(seed=17),  # likewise
    Plan(seed=92),  # a queue that an operator paused last of all
    Plan(seed=206),  # two producers, and ids that must differ
    Plan(seed=1855),  # a handler cancelled as it completed by itself, on a full disk: completed, but without its result
    Plan(seed=2598),  # a clock set back by an hour as all became calm: nothing was due, and no lease late, for an hour
]
"""Worlds that failed once, whoever was to blame."""


@pytest.mark.proof
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_a_thousand_worlds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 50):
        result = simulate(Plan(seed=seed, store=STORES[seed % 5 == 0]))
        assert result.ok, draw(shrink(result))
        assert result.steps >= 500


@pytest.mark.parametrize("store", STORES)
def test_worlds_are_full_of_jobs(store: str) -> None:
    reports = [simulate(Plan(seed=seed, store=store)).report for seed in range(20)]
    assert sum(report.jobs for report in reports if report is not None) > 200, "what an empty world proves is nothing"


@pytest.mark.parametrize("plan", KEPT, ids=str)
@pytest.mark.parametrize("store", STORES)
def test_what_failed_once_fails_no_more(plan: Plan, store: str) -> None:
    result = simulate(msgspec.structs.replace(plan, store=store))
    assert result.ok, draw(result)


@pytest.mark.parametrize("store", STORES)
def test_a_seed_repeats_to_the_byte_in_any_process(store: str) -> None:
    code = f"from dibs.testing.sim import *; print([simulate(Plan(seed=s, store={store!r})).digest for s in range(6)])"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            timeout=50,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert said == {f"{[simulate(Plan(seed=seed, store=store)).digest for seed in range(6)]}\n"}


def test_every_kind_of_fault_happens() -> None:
    met = {fault for seed in range(60) for fault in simulate(Plan(seed=seed)).faults}
    assert met == set(Fault)


def test_faults_can_be_left_out() -> None:
    result = next(found for seed in range(100) if (found := simulate(Plan(seed=seed))).faults)
    step = next(moment.step for moment in result.trace if moment.fault is not None)
    without = simulate(Plan(seed=result.plan.seed, without=frozenset({step})))
    assert without.ok
    assert step not in {moment.step for moment in without.trace if moment.fault is not None}
    assert not simulate(Plan(seed=result.plan.seed, faults=())).faults


def test_a_broken_promise_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = transitions.judge

    def careless(job: Any, write: Any, now: int) -> Any:
        """Let a stale holder settle: the fence is not looked at."""
        stale = write.ref is not None and write.event == "completed" and job.status == "claimed"
        return Outcome.APPLIED if stale else judge(job, write, now)

    monkeypatch.setattr(transitions, "judge", careless)
    result = next(found for seed in range(300) if not (found := simulate(Plan(seed=seed))).ok)
    smaller = shrink(result, tries=60)
    picture = draw(smaller)

    assert not smaller.ok
    assert smaller.steps <= result.steps
    assert "is broken" in picture
    assert f"simulate({smaller.plan})" in picture
    monkeypatch.undo()
    assert simulate(smaller.plan).ok


def test_the_loop_jumps_from_timer_to_timer() -> None:
    loop = SimLoop()
    try:
        loop.run_until_complete(asyncio.sleep(10_000))
        assert loop.time() == 10_000
        with pytest.raises(Stuck):
            loop.run_until_complete(loop.create_future())
    finally:
        loop.close()


def test_a_store_that_cannot_be_simulated() -> None:
    with pytest.raises(InvalidRequest, match="cannot be simulated"):
        simulate(Plan(seed=1, store="paper"))


def test_the_command(tmp_path: Any) -> None:
    command = [sys.executable, "tools/sim.py", "--seeds", "40", "--processes", "2"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr
    assert "40 worlds" in done.stdout
    assert "every promise kept" in done.stdout


def test_a_run_that_is_stopped_tells_what_was_done() -> None:
    command = [sys.executable, "tools/sim.py", "--seeds", "100000", "--processes", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "Ctrl-C ends it" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        told, error = running.communicate(timeout=50)
    assert running.returncode == 0, error
    assert "every promise kept, until it was stopped" in told
