"""``dibs exec`` and its commands: who is stopped by what, and that nobody is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs import App, Backoff, Job, NewJob, Status
from tests.server.process import Serving
from tests.worker.execs import Execs, children, gone, open_files, state, until

SLEEPER = "sleep 60 & echo $! >> $HERE/pids; echo $$ >> $HERE/pids; wait"
"""Two processes, the command and one that it has started, which tell their numbers."""
STUBBORN = "trap '' TERM INT HUP; echo $$ >> $HERE/pids; while :; do sleep 0.1; done"
"""It has to be killed."""


@pytest.fixture(params=["sqlite", pytest.param("served", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "served":
        with Serving(tmp_path, "--no-auth") as serving:
            yield serving.url
    else:
        yield f"sqlite:///{tmp_path / 'jobs.db'}"


async def given_back(app: App, job: Job) -> None:
    """Check that no attempt was counted, and that it can be had at once."""
    claim = await app.claim("next", id=job.id)
    assert claim is not None
    assert (claim.fence, claim.attempt) == (2, 1)


async def test_sigkill_kills_the_commands_too_and_the_job_comes_back(execs: Execs, app: App) -> None:
    job = await app.enqueue("t", retry=Backoff(0, 0))
    process = execs.start("sh", "-c", SLEEPER, options=("--lease", "1"))
    pids = await execs.written("pids", 2)
    guards = set(children(process.pid)) - set(pids)
    assert len(guards) == 1
    process.kill()
    await until(lambda: gone(*pids, *guards))

    execs.start("sh", "-c", "echo $DIBS_FENCE $DIBS_ATTEMPT")
    ended = await app.wait(job.id, 30)
    assert (ended.result, ended.attempts) == ("2 2", 2)
    assert (await app.verify()).ok


async def test_sigterm_lets_it_finish(execs: Execs, app: App) -> None:
    job = await app.enqueue("t")
    process = execs.start("sh", "-c", "echo $$ > $HERE/pids; while ! [ -e $HERE/go ]; do sleep 0.02; done; echo done")
    [pid] = await execs.written("pids")
    later = await app.enqueue("t")
    process.send_signal(signal.SIGTERM)
    said = execs.folder / "said-0"
    await until(lambda: "finishing what runs" in said.read_text())
    assert not gone(pid)
    (execs.folder / "go").touch()
    await execs.ended(process)
    assert process.returncode == 0
    assert (await app.wait(job.id, 5)).result == "done"
    left = await app.get(later.id)
    assert left is not None
    assert (left.status, left.fence) == (Status.PENDING, 0)
    assert gone(pid)


@pytest.mark.parametrize("command", [SLEEPER, STUBBORN], ids=["sleeper", "stubborn"])
async def test_after_the_grace_time_it_is_made_to_end(execs: Execs, app: App, command: str) -> None:
    job = await app.enqueue("t")
    process = execs.start("sh", "-c", command, options=("--grace", "0.2"))
    pids = await execs.written("pids")
    process.send_signal(signal.SIGTERM)
    said = await execs.ended(process)
    assert process.returncode == 0, said
    assert "1 given back" in said
    assert gone(*pids)
    await given_back(app, job)


async def test_the_second_signal_is_passed_on(execs: Execs, app: App) -> None:
    """Whatever it exits with then: that it was stopped does not mean that its work is done."""
    job = await app.enqueue("t")
    polite = "trap 'echo bye > $HERE/bye; exit 0' TERM; echo $$ > $HERE/pids; while :; do sleep 0.02; done"
    process = execs.start("sh", "-c", polite, options=("--grace", "60"))
    pids = await execs.written("pids")
    process.send_signal(signal.SIGINT)
    await until(lambda: "finishing what runs" in (execs.folder / "said-0").read_text())
    assert not gone(*pids)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    await execs.ended(process)
    assert time.monotonic() - began < 10
    assert (execs.folder / "bye").exists()
    assert gone(*pids)
    await given_back(app, job)


@pytest.mark.parametrize("command", [SLEEPER, STUBBORN], ids=["sleeper", "stubborn"])
async def test_the_timeout_kills_all_of_it(execs: Execs, app: App, command: str) -> None:
    job = await app.enqueue("t", timeout=1, max_attempts=1)
    process = execs.start("sh", "-c", f"echo so far >&2; {command}")
    ended = await app.wait(job.id, 30)
    pids = execs.numbers("pids")
    assert pids
    assert gone(*pids)
    assert ended.error is not None
    assert (ended.status, ended.error.kind, ended.error.traceback) == (Status.FAILED, "timeout", "so far\n")
    again = await app.enqueue("t", timeout=1, max_attempts=1)  # its place is free
    assert (await app.wait(again.id, 30)).fence == 1
    assert process.poll() is None


@pytest.mark.parametrize("command", [SLEEPER, STUBBORN], ids=["sleeper", "stubborn"])
async def test_a_lost_lease_kills_it(execs: Execs, app: App, command: str) -> None:
    job = await app.enqueue("t")
    process = execs.start("sh", "-c", command, options=("--lease", "1"))
    pids = await execs.written("pids")
    await app.cancel(job.id)
    await until(lambda: gone(*pids))
    after = await app.get(job.id)
    assert after is not None
    assert after.status is Status.CANCELLED
    assert process.poll() is None


async def test_one_that_was_stopped_and_taken_over(execs: Execs, app: App) -> None:
    """SIGSTOP reaches the worker alone. When it goes on, what it ran for another's job is killed."""
    job = await app.enqueue("t", retry=Backoff(0, 0))
    process = execs.start("sh", "-c", SLEEPER, options=("--lease", "1"))
    pids = await execs.written("pids", 2)
    process.send_signal(signal.SIGSTOP)
    claim = await app.claim("next", wait=20)
    assert claim is not None
    assert (claim.id, claim.fence) == (job.id, 2)
    process.send_signal(signal.SIGCONT)
    await until(lambda: gone(*pids))
    await claim.complete("by the second")
    assert (await app.wait(job.id, 5)).result == "by the second"
    assert (await app.verify()).ok


async def test_ctrl_z_stops_the_commands_with_it(execs: Execs, app: App) -> None:
    job = await app.enqueue("t")
    # A single process: a shell that stands still in the middle of starting another is in no state that says so.
    process = execs.start("sh", "-c", "echo $$ > $HERE/pids; exec sleep 2")
    [pid] = await execs.written("pids")
    process.send_signal(signal.SIGTSTP)
    await until(lambda: (state(process.pid), state(pid)) == ("T", "T"))
    process.send_signal(signal.SIGCONT)
    await until(lambda: state(pid) != "T")
    assert (await app.wait(job.id, 10)).status is Status.COMPLETED


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
async def test_signals_of_the_users_own_are_passed_on(execs: Execs, app: App, number: signal.Signals) -> None:
    job = await app.enqueue("t")
    name = number.name.removeprefix("SIG")
    process = execs.start(
        "sh", "-c", f"trap 'echo {name}; exit' {name}; echo $$ > $HERE/pids; while :; do sleep 0.02; done"
    )
    await execs.written("pids")
    process.send_signal(number)
    assert (await app.wait(job.id, 10)).result == name
    assert process.poll() is None


async def test_a_terminal_that_goes_away_stops_it(execs: Execs, app: App) -> None:
    job = await app.enqueue("t")
    process = execs.start("sh", "-c", SLEEPER, options=("--grace", "0.1"))
    pids = await execs.written("pids", 2)
    process.send_signal(signal.SIGHUP)
    await execs.ended(process)
    assert process.returncode == 0
    assert gone(*pids)
    await given_back(app, job)


async def test_no_zombies_and_no_one_left_behind(execs: Execs, app: App) -> None:
    """What a command leaves running ends with it, and keeps no one waiting for its output."""
    number = 20
    jobs = await app.enqueue_many([NewJob("t") for _ in range(number)])
    began = time.monotonic()
    leaver = "sleep 60 & echo $! >> $HERE/pids; echo $$ >> $HERE/pids; echo $DIBS_ID"
    process = execs.start("sh", "-c", leaver, options=("--concurrency", "4"))
    assert [(await app.wait(job.id, 30)).result for job in jobs] == [job.id for job in jobs]
    assert time.monotonic() - began < 30
    pids = execs.numbers("pids")
    assert len(pids) == 2 * number
    await until(lambda: gone(*pids))
    await until(lambda: len(children(process.pid)) == 1)  # the guard
    assert open_files(process.pid) < 40
    [guard] = children(process.pid)
    process.terminate()
    await execs.ended(process)
    assert gone(guard)


async def test_a_guard_that_was_killed_is_replaced(execs: Execs, app: App) -> None:
    jobs = [await app.enqueue("t")]
    process = execs.start("sh", "-c", SLEEPER, options=("--concurrency", "2"))
    pids = await execs.written("pids", 2)
    [guard] = set(children(process.pid)) - set(pids)
    os.kill(guard, signal.SIGKILL)
    await until(lambda: gone(guard))
    jobs.append(await app.enqueue("t"))
    pids = await execs.written("pids", 4)
    process.kill()
    await until(lambda: gone(*pids))  # both: the new one was told of the first as well


def test_a_command_does_not_begin_before_the_guard_knows(tmp_path: Path) -> None:
    """The worker is killed in between: the command was started, and must not run."""
    code = """
import asyncio, os, signal, sys
from dibs.worker.group import Group
from dibs.worker.guard import Guard

def watch(self, group):
    os.write(1, b"%d" % group)
    os.kill(os.getpid(), signal.SIGKILL)

Guard.watch = watch
asyncio.run(Group.start(["touch", sys.argv[1]], os.environ, Guard(), feed=b"", out=print, err=print))
"""
    begun = tmp_path / "begun"
    done = subprocess.run([sys.executable, "-c", code, begun], capture_output=True, timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    group = int(done.stdout)
    asyncio.run(until(lambda: gone(group)))
    assert not begun.exists()
