"""A worker's numbers: each claim once, by how it ended, whoever ended it."""

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

import dibs
from dibs import App, NewJob
from dibs.cli.commands import run
from dibs.worker.metrics import Metrics, gone, of_all, of_one, shared
from tests.worker import process_work
from tests.worker.conftest import until, work, working
from tests.worker.crews import HERE, Crew
from tests.worker.crews import until as until_told

OUTCOMES = ("completed", "failed", "lost", "released", "retried")


class Numbers:
    """Metrics of an app, and what they say."""

    def __init__(self, app: App) -> None:
        self.registry = of_one()
        self.meter = Metrics.of(app, self.registry)

    def ended(self, task: str) -> dict[str, int]:
        """How many, by outcome; what is zero is left out."""
        found = {
            outcome: self.registry.get_sample_value("dibs_worker_jobs_total", {"task": task, "outcome": outcome})
            for outcome in OUTCOMES
        }
        assert None not in found.values(), "each is there from the beginning"
        return {outcome: int(number or 0) for outcome, number in found.items() if number}

    def running(self, task: str) -> float | None:
        return self.registry.get_sample_value("dibs_worker_running_jobs", {"task": task})

    def timed(self, task: str) -> float | None:
        return self.registry.get_sample_value("dibs_worker_job_seconds_count", {"task": task})


@pytest.mark.parametrize("kind", ["async", "plain", "process"])
@pytest.mark.parametrize(
    ("way", "outcomes"),
    [
        ("dict", {"completed": 1}),
        ("object", {"failed": 1}),  # no JSON: it is known only when it is settled
        ("error", {"retried": 1, "failed": 1}),
        ("retry", {"retried": 1, "failed": 1}),
        ("fail", {"failed": 1}),
        ("snooze", {"released": 1}),
    ],
)
async def test_how_jobs_ended(kind: str, way: str, outcomes: dict[str, int]) -> None:
    async with App("memory://") as app:

        async def on_loop(way: str) -> object:
            return process_work.end(way)

        function = on_loop if kind == "async" else process_work.end
        app.task("end", process=kind == "process", max_attempts=2, retry=dibs.Backoff(0, 0))(function)
        numbers = Numbers(app)
        await app.enqueue("end", {"way": way})
        await work(app, meter=numbers.meter, handler_processes=1)
        assert numbers.ended("end") == outcomes
        assert (numbers.running("end"), numbers.timed("end")) == (0, sum(outcomes.values()))


async def test_those_that_others_have_ended(app: App) -> None:
    begun: list[str] = []

    @app.task
    async def hang() -> None:
        begun.append(dibs.current().id)
        await asyncio.sleep(60)

    @app.task
    async def itself(verb: str) -> None:
        claim = dibs.current()
        await (claim.complete() if verb == "complete" else claim.release(delay=3600))

    numbers = Numbers(app)
    lost, _ = await app.enqueue("hang"), await app.enqueue("hang")
    for verb in ("complete", "release"):
        await app.enqueue("itself", {"verb": verb})
    async with working(app, meter=numbers.meter, lease=1.0, grace=0):
        await until(lambda: len(begun) == 2 and not numbers.running("itself"))
        assert numbers.running("hang") == 2
        await app.cancel(lost.id)
        await until(lambda: numbers.ended("hang"))
    assert numbers.ended("hang") == {"lost": 1, "released": 1}
    assert numbers.ended("itself") == {"completed": 1, "released": 1}
    assert numbers.running("hang") == 0


async def test_a_thread_that_goes_on_after_its_time_is_counted_once(app: App) -> None:
    go = threading.Event()

    @app.task(timeout=0.1, max_attempts=1)
    def slow() -> None:
        go.wait(20)

    numbers = Numbers(app)
    await slow.enqueue()
    async with working(app, meter=numbers.meter):
        await until(lambda: numbers.ended("slow"))
        assert numbers.running("slow") == 1, "it has its place until it returns"
        go.set()
        await until(lambda: numbers.running("slow") == 0)
    assert numbers.ended("slow") == {"failed": 1}


def test_numbers_of_several_are_added_up_and_never_fall(tmp_path: Path) -> None:
    app = App("memory://")

    def page() -> str:
        return generate_latest(of_all(tmp_path)).decode()

    completed = 'dibs_worker_jobs_total{outcome="completed",task="pid"}'
    for place in (0, 1, 0):  # the last takes the place of the first
        with shared(tmp_path, place):
            meter = Metrics(["pid"], app.runtime.clock, None)
        meter.ended("pid", "completed")
        meter._running["pid"].inc()
        if place == 0:
            gone(tmp_path, place)
    assert f"{completed} 3.0" in page()
    assert 'dibs_worker_running_jobs{task="pid"} 1.0' in page()
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ
    own = CollectorRegistry()
    Counter("mine", "What a handler counts.", registry=own).inc()
    assert own.get_sample_value("mine_total") == 1
    assert "mine" not in page()


# On the command line


@pytest.fixture
async def file(crew: Crew) -> AsyncIterator[App]:
    async with App(crew.url) as app:
        yield app


async def test_a_worker_shows_them(crew: Crew, file: App) -> None:
    process = crew.start("--metrics-port", "0")
    await until_told(lambda: "metrics are at" in crew.said(process))
    [url] = re.findall(r"metrics are at (http://127.0.0.1:\d+/metrics)", crew.said(process))
    await file.enqueue_many([NewJob("on_loop", {"seconds": 0})] * 3)

    def shown() -> bool:
        page = urllib.request.urlopen(url, timeout=10).read().decode()
        return 'dibs_worker_jobs_total{outcome="completed",task="on_loop"} 3.0' in page

    await until_told(shown)
    process.terminate()
    said = await crew.ended(process)
    assert process.returncode == 0, said


APP = """
import dibs

app = dibs.App({url!r})


@app.task
async def nothing() -> None: ...
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--processes", "0"], "processes: must be"),
        (["--processes", "65"], "processes: must be"),
        (["--renew-after-jobs", "0"], "renew_after_jobs: must be"),
        (["--metrics-port", "70000"], "metrics_port: must be"),
        (["--metrics-port", "{taken}"], "metrics_port: cannot listen on 127.0.0.1 port {taken}"),
        (["--metrics-port", "{taken}", "--processes", "2"], "metrics_port: cannot listen on 127.0.0.1 port {taken}"),
        (["--processes", "2", "memory"], "a memory of its own"),
        (["--renew-above-mib", "500", "memory"], "a memory of its own"),
    ],
)
def test_what_is_refused(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = "memory://" if "memory" in options else f"sqlite:///{tmp_path / 'jobs.db'}"
    (tmp_path / "refused_app.py").write_text(APP.format(url=url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "refused_app", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = listening.getsockname()[1]
        given = [option.format(taken=taken) for option in options if option != "memory"]
        assert run(["worker", "refused_app:app", *given]) == 2
        assert said.format(taken=taken) in capsys.readouterr().err


def test_without_the_package_it_is_said_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "DIBS_STORE": "memory://", "PYTHONPATH": path}
    command = [sys.executable, "-m", "dibs", "worker", "crew_app:app", "--metrics-port", "0"]
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 2
    assert "pip install 'dibs-queue[server]'" in done.stderr
    assert "Traceback" not in done.stderr
