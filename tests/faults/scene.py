"""A scene: worker processes and producers at work on a server behind a proxy, and what must hold after a fault."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import dibs
from dibs.domain.settings import Config
from soak.subjects import Subject
from tests.chaos.crew import ROOT
from tests.chaos.histories import assert_clean, recording
from tests.servers.proxy import Proxy

POLL = Config.of().poll_every
SLACK = 4.0
"""Seconds that a busy machine may take over what takes an idle one a moment."""
DRAIN = 40.0
"""Seconds until all is done that was enqueued: leases of claims whose reply was lost run out meanwhile."""


class Run(NamedTuple):
    """A handler ran to its end."""

    at: float
    worker: str
    job: str
    fence: int


class Producer:
    """Enqueues without end; what is not acknowledged is sent again, with its key."""

    def __init__(self, app: dibs.App, name: str) -> None:
        self.app, self.name = app, name
        self.acknowledged: dict[str, float] = {}  # job -> when
        self.refused: Counter[str] = Counter()
        self._stopped = False
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        number = 0
        while not self._stopped:
            number += 1
            await self._enqueue(number)
            await asyncio.sleep(0.01)

    async def _enqueue(self, number: int) -> None:
        while True:
            try:
                # Every other one has a tag, and is inserted in a transaction of several statements.
                tags = ["odd"] if number % 2 else []
                key = f"{self.name}-{number}"
                job = await self.app.enqueue("effect", {"number": number}, idempotency_key=key, tags=tags)
            except dibs.StoreUnavailable as error:
                self.refused[type(error.__cause__).__name__] += 1
                await asyncio.sleep(0.05)
            else:
                self.acknowledged[job.id] = time.monotonic()
                return

    async def stop(self) -> None:
        self._stopped = True
        await self._task


class Scene:
    """Two workers and two producers."""

    def __init__(self, subject: Subject, proxy: Proxy, folder: Path) -> None:
        self.subject, self.proxy, self.folder = subject, proxy, folder
        self.url = proxy.through(subject.url) + subject.options
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.producers: list[Producer] = []
        self._recording = recording(folder / "producers.jsonl", "producers")

    def _hire(self, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "soak.work", self.url, str(self.folder), name]
        with (self.folder / f"{name}.log").open("w") as said:
            return subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)

    async def begin(self) -> None:
        await self.subject.prepare()
        self.workers = {name: self._hire(name) for name in ("worker-1", "worker-2")}
        self._recording.__enter__()
        self.app = dibs.App(self.url, max_attempts=50)
        self.producers = [Producer(self.app, f"producer-{number}") for number in (1, 2)]
        await self.until(lambda: self.all_have_worked_since(0.0) and len(self.runs()) > 50, 30)

    # What can be seen

    def runs(self) -> list[Run]:
        path = self.folder / "runs"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""  # the last line may be on its way
        words = [line.split() for line in whole.splitlines()]
        return [Run(float(at), worker, job, int(fence)) for at, worker, job, fence in words]

    def all_have_worked_since(self, moment: float) -> bool:
        """Say whether every worker has run something that it claimed since, and every producer was acknowledged."""
        at_work = {run.worker for run in self.runs() if run.at > moment + 0.1}  # not what it had in hand already
        heard = [any(at > moment for at in producer.acknowledged.values()) for producer in self.producers]
        return at_work == set(self.workers) and all(heard)

    async def until(self, condition: Callable[[], bool], seconds: float) -> float:
        """Wait for what other processes make true; say how long that took."""
        began = time.monotonic()
        while not condition():
            dead = {name: process.returncode for name, process in self.workers.items() if process.poll() is not None}
            assert not dead, f"{dead}: {self.said()}"
            assert time.monotonic() < began + seconds, f"not within {seconds} s: {self.said()}"
            await asyncio.sleep(0.05)
        return time.monotonic() - began

    def said(self) -> str:
        """Tell who was last heard of when, and what the workers have said."""
        now = time.monotonic()
        last = {run.worker: f"{run.at - now:.1f} s" for run in self.runs()}
        last |= {p.name: f"{max(p.acknowledged.values(), default=0.0) - now:.1f} s" for p in self.producers}
        for process in self.workers.values():
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)  # see soak/work.py
        at_the_server = self.subject.seen()
        time.sleep(1)
        logs = [(self.folder / f"{name}.log").read_text()[-12000:] for name in self.workers]
        return "\n".join([str(last), *logs, *at_the_server])

    # The end

    async def end(self) -> None:
        """Stop producing, wait until all is done, and stop the workers."""
        for producer in self.producers:
            await producer.stop()
        wanted = {job for producer in self.producers for job in producer.acknowledged}
        await self.until(lambda: wanted <= {run.job for run in self.runs()}, DRAIN)
        # A worker that ran a job may not have been able to say so: then it, or another, says so before it stops.
        deadline = time.monotonic() + DRAIN
        while (await self.app.counts()).unfinished:
            assert time.monotonic() < deadline, self.said()
            await asyncio.sleep(0.1)
        for process in self.workers.values():
            process.send_signal(signal.SIGTERM)
        for process in self.workers.values():
            try:
                assert await asyncio.to_thread(process.wait, 20) == 0, self.said()
            except subprocess.TimeoutExpired:
                raise AssertionError(f"a worker does not end: {self.said()}") from None

    async def check(self) -> None:
        acknowledged = {job for producer in self.producers for job in producer.acknowledged}
        twice = [run for run, times in Counter((run.job, run.fence) for run in self.runs()).items() if times > 1]
        assert not twice, "done twice under one fence"
        async with dibs.App(self.subject.url) as app:
            found = {job.id: job async for job in app.find()}
            assert acknowledged <= set(found), "acknowledged and lost"
            keys = Counter(job.idempotency_key for job in found.values())
            assert set(keys.values()) == {1}, "one key, one job"
            assert {str(job.status) for job in found.values()} == {"completed"}
            report = await app.verify()
            assert report.ok, str(report)
        await assert_clean(self.subject.url, self.folder)

    async def close(self) -> None:
        for process in self.workers.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        for producer in self.producers:
            producer._task.cancel()
        await asyncio.gather(*(producer._task for producer in self.producers), return_exceptions=True)
        if self.producers:
            await self.app.close()
            self._recording.__exit__(None, None, None)
