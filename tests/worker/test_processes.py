"""Real worker processes, stopped by real signals."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dibs import App, Backoff, NewJob, Status
from tests.worker.crews import HERE, Crew, all_at_work, all_ended, until


@pytest.fixture
async def app(crew: Crew) -> AsyncIterator[App]:
    async with App(crew.url, reap_every=0.2) as app:
        yield app


async def test_sigterm_lets_what_runs_finish(crew: Crew, app: App) -> None:
    jobs = [await app.enqueue(task, {"seconds": 0.5}) for task in ("on_loop", "in_thread")]
    process = crew.start()
    await until(lambda: len(crew.lines("began")) == 2)
    later = await app.enqueue("on_loop", {"seconds": 0})
    process.send_signal(signal.SIGTERM)
    said = await crew.ended(process)

    assert process.returncode == 0, said
    assert "finishing what runs" in said
    assert [(await app.wait(job.id, 5)).result for job in jobs] == [1, 1]
    found = await app.get(later.id)
    assert found is not None
    assert found.status in {Status.PENDING, Status.COMPLETED}  # it may have been quicker than the signal
    assert [worker.status for worker in await app.workers()] == ["inactive"]


@pytest.mark.parametrize("task", ["on_loop", "in_thread", "for_ever"])
async def test_the_second_signal_does_not_wait(crew: Crew, app: App, task: str) -> None:
    job = await app.enqueue(task, None if task == "for_ever" else {"seconds": 60})
    process = crew.start("--grace", "60")
    await until(lambda: crew.lines("began"))
    process.send_signal(signal.SIGINT)
    await asyncio.sleep(0.3)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    said = await crew.ended(process)

    assert process.returncode == 0, said
    assert time.monotonic() - began < 10
    assert "stopping at once" in said
    claim = await app.claim("next", id=job.id)  # at once: it waits for no lease
    assert claim is not None
    assert (claim.fence, claim.attempt) == (2, 1)


async def test_after_the_grace_time_the_process_ends(crew: Crew, app: App) -> None:
    job = await app.enqueue("for_ever")
    process = crew.start("--grace", "0.2")
    await until(lambda: crew.lines("began"))
    process.send_signal(signal.SIGTERM)
    said = await crew.ended(process)
    assert process.returncode == 0, said
    claim = await app.claim("next", id=job.id)
    assert claim is not None


async def test_rolling_restart_under_load(crew: Crew, app: App) -> None:
    """Four workers, one after another replaced ten times: nothing lost, nothing run twice, no job waits for a lease."""
    workers = [crew.start("--concurrency", "4") for _ in range(4)]
    await all_at_work(app, 4)
    producing = True
    enqueued: list[str] = []

    async def produce() -> None:
        while producing:
            task = ("on_loop", "in_thread")[len(enqueued) % 20 < 5]
            jobs = [NewJob(task, {"seconds": 0.02}) for _ in range(5)]
            enqueued.extend(job.id for job in await app.enqueue_many(jobs))
            await asyncio.sleep(0.01)

    producer = asyncio.create_task(produce())
    await until(lambda: len(crew.lines("ended")) > 100)
    for turn in range(10):
        old = workers[turn % 4]
        workers[turn % 4] = crew.start("--concurrency", "4")
        await all_at_work(app, 5)
        old.send_signal(signal.SIGTERM)
        said = await crew.ended(old)
        assert old.returncode == 0, said
    producing = False
    await producer
    await all_ended(app, len(enqueued))
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        await crew.ended(worker)

    runs = Counter(id for id, _ in crew.lines("began"))
    assert set(runs) == set(enqueued)
    assert set(runs.values()) == {1}
    assert sorted(crew.lines("ended")) == sorted(crew.lines("began"))
    report = await app.verify()
    assert (report.ok, report.jobs) == (True, len(enqueued))


async def test_kill_under_load(crew: Crew, app: App) -> None:
    """Ten times a worker is killed in the middle: nothing acknowledged is lost, no fence is given away twice."""
    workers = [crew.start("--concurrency", "4") for _ in range(3)]
    producing = True
    enqueued: list[str] = []

    async def produce(task: str) -> None:
        while producing:
            jobs = [NewJob(task, {"seconds": 0.02}, max_attempts=20, lease=1.0, retry=Backoff(0, 0)) for _ in range(5)]
            enqueued.extend(job.id for job in await app.enqueue_many(jobs))
            await asyncio.sleep(0.02)

    producers = [asyncio.create_task(produce(task)) for task in ("on_loop", "in_thread")]
    for turn in range(10):
        before = len(crew.lines("began"))
        await until(lambda before=before: len(crew.lines("began")) > before + 20)  # type: ignore[misc]
        workers[turn % 3].kill()
        workers[turn % 3] = crew.start("--concurrency", "4")
    producing = False
    await asyncio.gather(*producers)
    await all_ended(app, len(enqueued))
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        await crew.ended(worker)

    began = Counter(crew.lines("began"))
    assert set(began.values()) == {1}, "a fence was handed out twice"
    assert {id for id, _ in began} == set(enqueued)
    assert any(fence > 1 for _, fence in began), "no worker was killed while it held anything"
    for job_id in enqueued:
        job = await app.get(job_id)
        assert job is not None
        assert (job.status, job.result) == (Status.COMPLETED, job.fence)  # by the last who held it, and no other
    report = await app.verify()
    assert (report.ok, report.jobs) == (True, len(enqueued))


async def test_tasks_of_other_modules_are_imported(crew: Crew, app: App) -> None:
    job = await app.enqueue("elsewhere", {"a": 1})
    process = crew.start("--import", "crew_more", "--until-idle")
    said = await crew.ended(process)
    assert "elsewhere" in said
    assert (await app.wait(job.id, 5)).result == 2


async def test_only_the_queues_that_are_named(crew: Crew, app: App) -> None:
    wanted = await app.enqueue("on_loop", {"seconds": 0}, queue="mail")
    other = await app.enqueue("on_loop", {"seconds": 0})
    process = crew.start("--queue", "mail", "--queue", "news", "--until-idle", "--worker-id", "mailer")
    await crew.ended(process)
    assert (await app.wait(wanted.id, 5)).worker_id == "mailer"
    left = await app.get(other.id)
    assert left is not None
    assert left.status is Status.PENDING


async def test_until_idle(crew: Crew, app: App) -> None:
    await app.enqueue_many([NewJob("on_loop", {"seconds": 0}) for _ in range(20)])
    process = crew.start("--until-idle")
    said = await crew.ended(process)
    assert (process.returncode, (await app.counts()).completed) == (0, 20), said


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no_such_module:app"], "no module 'no_such_module'"),
        (["crew_app:nothing"], "no such name"),
        (["crew_app:tell"], "a function there"),
        (["not/a/module"], "package.module:app"),
        (["crew_app:app", "--concurrency", "0"], "concurrency"),
        (["crew_app:app", "--task", "unknown"], "no task 'unknown'"),
        (["crew_app:app", "--import", "no_such_tasks"], "no module 'no_such_tasks'"),
        ([], "APP"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tmp_path: Path, arguments: list[str], told: str) -> None:
    environment = {**os.environ, "DIBS_STORE": f"sqlite:///{tmp_path / 'x.db'}"}
    command = [sys.executable, "-c", "from dibs.cli import main; main()", "worker", *arguments]
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
