"""Handlers in processes of their own: how their jobs end, and that none of them is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dibs
from dibs import App, Backoff, Job, Status, Worker
from dibs.testing import drain
from dibs.worker import processes
from tests.worker import process_work
from tests.worker.conftest import read, until_counts, work, working
from tests.worker.execs import children, gone, until

HERE = Path(__file__).parent


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
async def memory() -> AsyncIterator[App]:
    async with App("memory://", reap_every=0.2) as app:
        yield app


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[App]:
    async with App(f"sqlite:///{tmp_path / 'jobs.db'}", reap_every=0.2) as app:
        yield app


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


def content(file: str) -> str:
    return Path(file).read_text()


def numbers(file: Path) -> list[int]:
    text = file.read_text() if file.exists() else ""
    return [int(line) for line in text.rpartition("\n")[0].splitlines()]


async def told(file: Path, lines: int = 1) -> list[int]:
    await until(lambda: len(numbers(file)) >= lines)
    return numbers(file)


def task(app: App, function: Callable[..., Any], name: str | None = None, **options: Any) -> Any:
    return app.task(name or function.__name__, **{"process": True, "retry": Backoff(0, 0), **options})(function)


# How jobs end


async def test_jobs_end_as_they_do_in_threads(app: App) -> None:
    apart = task(app, process_work.end, "apart", max_attempts=2)
    beside = task(app, process_work.end, "beside", max_attempts=2, process=False)
    jobs = [(way, await apart.enqueue(way), await beside.enqueue(way)) for way in process_work.WAYS]
    wrong = await app.enqueue("apart", {"no": 1}), await app.enqueue("beside", {"no": 1})
    await work(app, concurrency=4)

    for way, first, second in [*jobs, ("params that do not fit", *wrong)]:
        there, here = await read(app, first), await read(app, second)
        assert there.status.finished or (there.due_us - there.updated_us > 3_000_000_000), way
        assert _shown(there) == _shown(here), way
        if there.error is not None and way in {"error", "own", "retry", "fail"}:
            assert there.error.traceback is not None
            assert "process_work.py" in there.error.traceback
            assert type(process_work._BAD[way]()).__name__ == there.error.kind
    results = {way: (await read(app, job)).result for way, job, _ in jobs}
    assert results["dict"] == {"b": [1, 2.5, None], "a": "ä"}
    assert (await app.verify()).ok


def _shown(job: Job) -> tuple[Any, ...]:
    error = job.error and (job.error.kind, job.error.message.replace(f" of task {job.task!r}", ""), job.error.code)
    return job.status, job.attempts, job.result, error


async def test_the_claim_in_another_process(app: App) -> None:
    job = await task(app, process_work.look, queue="q", max_attempts=1).enqueue(1, b=3)
    await work(app)

    after = await read(app, job)
    assert after.error is None
    assert after.result == {
        "args": [1, 3],
        "claim": [job.id, "look", {"a": 1, "b": 3}, 1, 1, "q", False],
        "refused": ["invalid", "invalid", *["not_supported"] * 3],
        "name": "tests.worker.process_work",
    }
    assert (after.progress, after.progress_note) == (0.75, "more")


async def test_one_process_for_one_job_after_another(memory: App) -> None:
    pid = task(memory, process_work.pid)
    jobs = [await pid.enqueue() for _ in range(20)]
    async with working(memory, handler_processes=1):
        ran = {(await memory.wait(job.id, 10)).result for job in jobs}
        assert len(ran) == 1
        assert not ran & {os.getpid()}
        assert not gone(*ran)
    assert gone(*ran), "idle ones end with the worker"
    assert not [child for child in children(os.getpid()) if child in ran]


async def test_what_a_handler_forks_ends_when_it_is_told_to(memory: App) -> None:
    job = await task(memory, process_work.fork, timeout=10, max_attempts=1).enqueue()
    await work(memory)
    after = await read(memory, job)
    assert (after.result, after.error) == (-signal.SIGTERM, None)


async def test_a_process_that_dies_fails_its_own_job(sqlite: App) -> None:
    die, behind = task(sqlite, process_work.die), task(sqlite, process_work.leave_someone_behind)
    pid, slow = task(sqlite, process_work.pid), task(sqlite, process_work.sleep)
    beside = await slow.enqueue(os.devnull, 1.0)
    dying = {
        "3": await die.options(max_attempts=1).enqueue("exit"),
        "SIGKILL": await die.options(max_attempts=2).enqueue("SIGKILL"),
        "SIGSEGV": await die.options(max_attempts=1).enqueue("SIGSEGV"),
        "4": await behind.options(max_attempts=1).enqueue(),
    }
    later = await pid.enqueue()
    await work(sqlite, handler_processes=2)

    for code, job in dying.items():
        after = await read(sqlite, job)
        assert after.error is not None
        assert (after.status, after.attempts) == (Status.FAILED, job.max_attempts), "it is tried again"
        assert (after.error.kind, after.error.code) == ("exit", code)
        what = f"was killed by {code}" if code.startswith("SIG") else f"has ended with exit status {code}"
        assert after.error.message == f"the handler's process {what}"
    assert [(await read(sqlite, job)).attempts for job in (beside, later)] == [1, 1]


# What stops them


async def test_a_timeout_stops_it_and_disturbs_no_other(app: App, pids: Path) -> None:
    task(app, process_work.clean_up, timeout=0.8, max_attempts=1)
    slow, pid = task(app, process_work.sleep, timeout=20), task(app, process_work.pid)
    late = await app.enqueue("clean_up", {"file": str(pids)})
    beside = await slow.enqueue(f"{pids}-beside", 1.5)
    async with working(app, handler_processes=2):
        after = await app.wait(late.id, 20)
        assert gone(*numbers(pids)), "it, and what it has started"
        next_one = await app.wait((await pid.enqueue()).id, 20)
        other = await app.wait(beside.id, 20)

    assert after.error is not None
    assert (after.status, after.error.kind) == (Status.FAILED, "timeout")
    assert content(f"{pids}.lost") == "True", "it was let to clean up, and knew"
    assert (other.result, other.attempts) == (numbers(Path(f"{pids}-beside"))[0], 1)
    assert next_one.result not in {*numbers(pids), other.result}


async def test_one_that_will_not_stop_is_killed(memory: App, pids: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 0.3)
    task(memory, process_work.will_not, timeout=0.5, max_attempts=1)
    job = await memory.enqueue("will_not", {"file": str(pids)})
    await work(memory, handler_processes=1)

    assert content(f"{pids}.told") == "Stopped"
    assert gone(*numbers(pids))
    after = await read(memory, job)
    assert after.error is not None
    assert after.error.kind == "timeout"


async def test_what_it_returns_when_told_to_stop_counts_for_nothing(
    memory: App, pids: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 60)  # it need not be killed
    task(memory, process_work.return_all_the_same, timeout=0.5, max_attempts=1)
    job = await memory.enqueue("return_all_the_same", {"file": str(pids)})
    await work(memory, handler_processes=1)
    after = await read(memory, job)
    assert after.error is not None
    assert (after.status, after.result, after.error.kind) == (Status.FAILED, None, "timeout")


async def test_what_lets_no_other_thread_run_keeps_its_claim(sqlite: App, pids: Path) -> None:
    job = await task(sqlite, process_work.hold_everything).enqueue(str(pids), 2.5)
    turns = 0
    async with working(sqlite, lease=1.0):
        await told(pids)
        while not (after := await read(sqlite, job)).status.finished:
            await asyncio.sleep(0.01)
            turns += 1

    assert (after.status, after.fence, after.attempts) == (Status.COMPLETED, 1, 1)
    assert [event.event for event in await sqlite.log(job.id)] == ["enqueued", "claimed", "completed"]
    assert turns > 30, "and the worker's loop goes on"


async def test_a_lost_claim_ends_the_process(sqlite: App, pids: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = await task(sqlite, process_work.clean_up).enqueue(str(pids))
    async with working(sqlite, lease=0.6):
        started = await told(pids, 2)
        await sqlite.cancel(job.id)
        await until(lambda: gone(*started))
        await until(lambda: "taken over while it ran" in caplog.text)
    assert content(f"{pids}.lost") == "True"
    after = await read(sqlite, job)
    assert (after.status, after.result) == (Status.CANCELLED, None)


async def test_what_waits_is_given_back_at_once_and_what_runs_when_it_was_killed(memory: App, pids: Path) -> None:
    slow = task(memory, process_work.sleep)
    running, waiting = await slow.enqueue(str(pids), 60), await slow.enqueue(str(pids), 60)
    task(memory, process_work.pid, "other", process=False)  # so that more is begun than there are processes
    worker = Worker(memory, grace=60, handler_processes=1)
    run = asyncio.create_task(worker.run())
    [started] = await told(pids)
    await until_counts(memory, lambda counts: counts.claimed == 2)
    worker.stop()
    await until_counts(memory, lambda counts: counts.claimed == 1)
    assert not run.done()
    worker.stop()
    await asyncio.wait_for(run, 20)

    assert gone(started)
    assert [(job.status, job.attempts) for job in (await read(memory, running), await read(memory, waiting))] == [
        (Status.PENDING, 0),
        (Status.PENDING, 0),
    ]
    assert worker.given_back == 2
    assert len(numbers(pids)) == 1


async def test_the_grace_time_ends_while_a_process_starts(memory: App) -> None:
    job = await task(memory, process_work.pid).enqueue()
    before = set(children(os.getpid()))
    worker = Worker(memory, grace=0)
    run = asyncio.create_task(worker.run())
    await until(lambda: set(children(os.getpid())) - before)
    worker.stop()
    await asyncio.wait_for(run, 20)

    after = await read(memory, job)
    assert (after.status, after.attempts) == (Status.PENDING, 0)
    assert not set(children(os.getpid())) - before


async def test_no_more_is_claimed_than_there_are_processes(memory: App, pids: Path) -> None:
    slow = task(memory, process_work.sleep)
    for _ in range(5):
        await slow.enqueue(str(pids), 60)
    worker = Worker(memory, grace=0, handler_processes=2)
    run = asyncio.create_task(worker.run())
    await told(pids, 2)
    assert (await memory.counts()).claimed == 2, "another worker may be idle"
    worker.stop()
    await asyncio.wait_for(run, 20)


# A worker in a process of its own, whose tasks are in its script


class Script:
    """The script, run."""

    def __init__(self, folder: Path) -> None:
        self.app = App(f"sqlite:///{folder / 'jobs.db'}", reap_every=0.2)
        self.pids = folder / "script"
        self._said = folder / "said"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self, **environment: str) -> int:
        self._start(environment)
        return (await told(self.pids))[0]

    def _start(self, environment: dict[str, str]) -> None:
        variables = {**os.environ, "DIBS_STORE": self.app.url, "TEST_PIDS": str(self.pids), **environment}
        variables["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), *sys.path])
        with self._said.open("w") as said:
            command = [sys.executable, str(HERE / "process_script.py")]
            self.process = subprocess.Popen(command, env=variables, stdout=said, stderr=said)

    async def ended(self) -> str:
        assert self.process is not None
        await asyncio.to_thread(self.process.wait, 20)
        return await asyncio.to_thread(self._said.read_text)


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    script = Script(tmp_path)
    yield script
    script.app.sync.close()
    if script.process is not None:
        script.process.kill()
        script.process.wait()


async def test_sigterm_for_all_of_a_service_lets_handlers_finish(script: Script, pids: Path) -> None:
    job = await script.app.enqueue("hold", {"file": str(pids), "seconds": 1})
    worker = await script.start(GUARDED="yes")
    [handler] = await told(pids)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(handler, number)
    os.kill(worker, signal.SIGTERM)
    said = await script.ended()

    assert script.process is not None
    assert script.process.returncode == 0, said
    after = await read(script.app, job)
    assert (after.status, after.result, after.attempts) == (Status.COMPLETED, "__mp_main__", 1)
    assert gone(handler)
    assert (await script.app.counts()).pending == 1, "the handler has enqueued something on its own"


@pytest.mark.parametrize("noticed_by", ["guard", "line"])
async def test_nothing_outlives_a_worker_that_is_killed(script: Script, pids: Path, noticed_by: str) -> None:
    """Not even a handler that lets no other thread run, and so cannot hear that the line has ended."""
    name = "hold" if noticed_by == "guard" else "wait"
    for _ in range(2):
        await script.app.enqueue(name, {"file": str(pids), "seconds": 60}, retry=Backoff(0, 0))
    worker = await script.start(GUARDED="yes")
    handlers = await told(pids, 2)
    [guard] = set(children(worker)) - set(handlers)
    if noticed_by == "line":
        os.kill(guard, signal.SIGKILL)
        await until(lambda: gone(guard))
    os.kill(worker, signal.SIGKILL)
    await until(lambda: gone(*handlers, guard))
    claim = await script.app.claim("next", wait=10)
    assert claim is not None
    assert (claim.fence, claim.attempt) == (2, 2)


async def test_a_script_that_runs_a_worker_as_it_is_imported(script: Script, pids: Path) -> None:
    job = await script.app.enqueue("hold", {"file": str(pids), "seconds": 0}, max_attempts=1)
    await script.start(UNTIL_IDLE="yes")
    said = await script.ended()

    after = await read(script.app, job)
    assert after.error is not None, said
    assert (after.status, after.error.kind) == (Status.FAILED, "WrongState")
    assert 'if __name__ == "__main__"' in after.error.message


# What is refused, and when


def test_a_process_is_for_what_it_can_find() -> None:
    app = App("memory://")

    @app.task(process=True)
    def inside() -> None: ...

    app.task("nameless", process=True)(process_work.nameless)
    app.task("part", process=True)(partial(process_work.sleep, "x"))
    app.task("renamed", process=True)(process_work.was_renamed)
    app.task("fine", process=True)(process_work.pid)
    with pytest.raises(dibs.InvalidRequest) as refused:
        Worker(app)
    assert [problem.message.split()[0] for problem in refused.value.problems] == [
        "'inside'",
        "'nameless'",
        "'part'",
        "'renamed'",
    ]
    assert "inside of test_a_process_is_for_what_it_can_find()" in str(refused.value)
    Worker(app, tasks=["fine"])


def test_an_async_function_needs_no_process() -> None:
    for registry in (App("memory://"), dibs.Tasks()):
        with pytest.raises(dibs.InvalidRequest, match="process: is for plain functions"):

            @registry.task(process=True)
            async def on_loop() -> None: ...

        with pytest.raises(dibs.InvalidRequest, match="process: must be true or false"):
            registry.task("x", process=1)(process_work.pid)  # type: ignore[call-overload]


@pytest.mark.parametrize("number", [0, -1, 1.5, True, 11, "2"])
def test_how_many_processes_there_may_be(number: Any) -> None:
    app = App("memory://")
    task(app, process_work.pid)
    with pytest.raises(dibs.InvalidRequest, match="handler_processes"):
        Worker(app, concurrency=10, handler_processes=number)


def test_there_is_one_process_for_each_cpu_unless_set() -> None:
    app = App("memory://")
    task(app, process_work.pid)
    cpus = len(os.sched_getaffinity(0))
    assert [Worker(app, concurrency=n)._places for n in (1, cpus, cpus + 5)] == [1, cpus, cpus]


async def test_options_of_one_call_leave_it_where_it_runs(memory: App) -> None:
    pid = task(memory, process_work.pid)
    assert pid.options(priority=5).process
    assert "process" not in pid.defaults
    assert (await memory.enqueue("pid")).status is Status.PENDING


async def test_drain_runs_it_here(memory: App) -> None:
    @memory.task(process=True)
    def here() -> int:
        return os.getpid()

    await here.enqueue()
    assert [job.result for job in await drain(memory)] == [os.getpid()]
