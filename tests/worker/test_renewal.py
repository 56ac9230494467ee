"""Processes that have done enough are replaced, and no job notices: those of a command, and those of handlers."""

import asyncio
import os
import random
import re
import signal
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import dibs
from dibs import App, NewJob, Status, Worker
from dibs.worker.renewal import MIB, Renewal, resident
from tests.worker import process_work
from tests.worker.conftest import until_counts, work
from tests.worker.crews import Crew, all_ended, until


@pytest.fixture
async def file(crew: Crew) -> AsyncIterator[App]:
    async with App(crew.url, reap_every=0.2) as app:
        yield app


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def shared(folder: Path) -> list[Path]:
    return list(folder.glob("dibs-*"))


def alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


# The worker


async def test_it_takes_so_many_jobs_ends_them_and_leaves(app: App) -> None:
    ran: list[int] = []

    @app.task
    async def count(number: int) -> None:
        ran.append(dibs.current().fence)
        await asyncio.sleep(0.01)

    await app.enqueue_many([NewJob("count", {"number": number}) for number in range(20)])
    for turn in (1, 2):
        worker = Worker(app, renew_after_jobs=7, concurrency=2)
        assert not worker.spent
        await asyncio.wait_for(worker.run(), 30)
        assert (worker.spent, worker.given_back, len(ran)) == (True, 0, 7 * turn)
    counts = await app.counts()
    assert (counts.completed, counts.pending, counts.claimed) == (14, 6, 0)
    last = Worker(app, renew_after_jobs=7)
    await asyncio.wait_for(last.run(until_idle=True), 30)
    assert not last.spent
    assert set(ran) == {1}, "what was claimed ahead was run, and not given back"
    assert len(ran) == 20


async def test_it_may_be_stopped_as_it_ends_what_it_holds(app: App) -> None:
    begun: list[int] = []

    @app.task
    async def hang(number: int) -> None:
        begun.append(number)
        if number:
            await asyncio.sleep(60)

    await app.enqueue_many([NewJob("hang", {"number": number}) for number in range(5)])
    worker = Worker(app, renew_after_jobs=3, concurrency=3, prefetch=0, grace=0)
    run = asyncio.create_task(worker.run())
    async with asyncio.timeout(10):
        while not worker.spent:  # noqa: ASYNC110 - another task makes it true
            await asyncio.sleep(0.01)
    assert (len(begun), (await app.counts()).pending) == (3, 2)
    worker.stop()
    await asyncio.wait_for(run, 10)
    assert worker.given_back == 2
    await until_counts(app, lambda counts: (counts.pending, counts.claimed) == (4, 0))


async def test_memory_counts_too_but_each_does_something_first(app: App) -> None:
    @app.task
    async def nothing() -> None: ...

    await app.enqueue_many([NewJob("nothing")] * 3)
    worker = Worker(app, renew_above_mib=1, concurrency=1, prefetch=0)
    await asyncio.wait_for(worker.run(), 30)
    assert worker.spent
    assert (await app.counts()).completed == 1


# The processes of handlers


def apart(app: App, function: Callable[..., Any]) -> None:
    app.task(process=True)(function)


async def results(app: App) -> list[Any]:
    jobs = [job async for job in app.find()]
    assert {(job.status, job.fence, job.attempts) for job in jobs} == {(Status.COMPLETED, 1, 1)}
    return [job.result for job in reversed(jobs)]


async def test_a_handlers_process_is_replaced_after_so_many_jobs() -> None:
    async with App("memory://") as app:
        apart(app, process_work.pid)
        await app.enqueue_many([NewJob("pid")] * 8)
        worker = Worker(app, handler_processes=1, renew_after_jobs=3)
        await asyncio.wait_for(worker.run(until_idle=True), 50)
        assert not worker.spent, "it has run nothing itself"
        assert list(Counter(await results(app)).values()) == [3, 3, 2]


async def test_a_handlers_process_is_replaced_above_so_much_memory() -> None:
    async with App("memory://") as app:
        apart(app, process_work.leak)
        for mib in (1, 300, 1, 1):
            await app.enqueue("leak", {"mib": mib})
        await work(app, handler_processes=1, renew_above_mib=250)
        first, second, third, fourth = await results(app)
        assert first == second != third == fourth


# The processes of a command


async def test_processes_are_replaced_after_so_many_jobs(crew: Crew, file: App) -> None:
    jobs = [NewJob(("on_loop", "in_thread")[number % 2], {"seconds": 0.005}) for number in range(100)]
    enqueued = [job.id for job in await file.enqueue_many(jobs)]
    process = crew.start("--processes", "2", "--renew-after-jobs", "30", "--until-idle", "--worker-id", "w")
    said = await crew.ended(process)
    assert process.returncode == 0, said

    assert Counter(crew.lines("began")) == Counter(crew.lines("ended")) == Counter((id, 1) for id in enqueued)
    shares = sorted(Counter(crew.pids("ended")).values(), reverse=True)
    assert sum(27 <= share <= 30 for share in shares) >= 2, said
    assert max(shares) <= 30
    assert process.pid not in crew.pids("ended")
    found = [job async for job in file.find()]
    assert {(job.status, job.fence, job.attempts) for job in found} == {(Status.COMPLETED, 1, 1)}
    assert {job.worker_id for job in found} == {"w-0", "w-1"}
    report = await file.verify()
    assert (report.ok, report.jobs) == (True, 100)


async def test_one_process_is_replaced_above_so_much_memory(crew: Crew, file: App) -> None:
    await file.enqueue_many([NewJob("leak", {"mib": 200})] * 2)
    process = crew.start("--renew-above-mib", "190", "--concurrency", "1", "--prefetch", "0", "--until-idle")
    said = await crew.ended(process)
    assert process.returncode == 0, said
    assert len(set(crew.pids("ended"))) == 2
    assert {fence for _, fence in crew.lines("ended")} == {1}


async def test_a_dead_one_is_replaced_and_all_stop_together(crew: Crew, file: App) -> None:
    """And their numbers are added up, whoever has counted them: the dead too."""
    process = crew.start("--processes", "2", "--renew-after-jobs", "5", "--metrics-port", "0", "--concurrency", "2")
    await file.enqueue_many([NewJob("on_loop", {"seconds": 0})] * 23)
    await all_ended(file, 23)
    [url] = re.findall(r"metrics are at (\S+)", crew.said(process))

    def number(name: str) -> float:
        page = urllib.request.urlopen(url, timeout=10).read().decode()
        return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))

    completed = 'dibs_worker_jobs_total{outcome="completed",task="on_loop"}'
    await until(lambda: number(completed) == 23)
    assert number("dibs_worker_job_seconds_count") == 23

    await file.enqueue_many([NewJob("in_thread", {"seconds": 2.0})] * 3)
    await until(lambda: len(crew.lines("began")) == 26)
    assert number("dibs_worker_running_jobs") == 3
    killed, *_ = members = children(process.pid)
    assert len(members) == 2
    held = crew.pids("began")[-3:].count(killed)
    os.kill(killed, signal.SIGKILL)
    await until(lambda: len(children(process.pid)) == 2 and killed not in children(process.pid))
    await until(lambda: number("dibs_worker_running_jobs") <= 3 - held)
    # As a service manager does it: each is told, and yet nothing is cut short.
    for pid in (*children(process.pid), process.pid):
        os.kill(pid, signal.SIGTERM)
    said = await crew.ended(process)
    assert process.returncode == 0, said
    assert len(crew.lines("ended")) == 26 - held
    assert "stopping at once" not in said


async def test_without_whoever_looks_after_them_they_finish_and_end(crew: Crew, file: App, tmp_path: Path) -> None:
    crew.environment["TMPDIR"] = str(tmp_path)
    process = crew.start("--processes", "2", "--metrics-port", "0")
    await file.enqueue_many([NewJob("in_thread", {"seconds": 0.7})] * 2)
    await until(lambda: len(crew.lines("began")) == 2)
    members = children(process.pid)
    assert shared(tmp_path)
    process.kill()
    await until(lambda: not any(map(alive, members)))
    assert Counter(crew.lines("began")) == Counter(crew.lines("ended"))
    assert (await file.counts()).completed == 2
    assert not shared(tmp_path), "nothing is left behind"


# What may be asked for


def test_each_draws_a_bound_of_its_own_a_little_below() -> None:
    rng = random.Random(7)

    def jobs_of_one() -> int:
        renewal, done = Renewal(100, None, rng), 0
        while not renewal.due(0):
            renewal.count(1)
            done += 1
        return done

    drawn = {jobs_of_one() for _ in range(500)}
    assert drawn == set(range(90, 101))
    assert [Renewal(1, None, rng).room(50) for _ in range(3)] == [1, 1, 1]
    memory = Renewal(None, 100, rng)
    assert not memory.due(10**12), "nothing was done yet"
    memory.count(1)
    assert (memory.due(89 * MIB), memory.due(100 * MIB + 1)) == (False, True)
    assert not Renewal(None, None, rng).due(10**12)


def test_memory_is_what_there_is_now() -> None:
    before = resident()
    much = b"x" * (50 * MIB)
    assert 40 * MIB < resident() - before < 80 * MIB, len(much)


@pytest.mark.parametrize("option", ["renew_after_jobs", "renew_above_mib"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5"])
def test_what_is_no_number_is_refused(option: str, value: Any) -> None:
    app = App("memory://")
    app.task(process_work.pid)
    with pytest.raises(dibs.InvalidRequest, match=option):
        Worker(app, **{option: value})
