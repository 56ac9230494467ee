"""A worker's numbers for Prometheus: of one process, or of all those of one command."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, start_http_server, values
    from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
except ImportError:
    from dibs.domain.errors import NotSupported

    raise NotSupported("metrics need prometheus-client", hint="pip install 'dibs-queue[server]'") from None

from dibs.domain.errors import InvalidRequest, Problem
from dibs.worker.meter import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from dibs.app import App
    from dibs.claim import Claim
    from dibs.clock import Clock

HOST = "127.0.0.1"
_SECONDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The numbers of a worker's tasks: all of them are there from the beginning, at zero."""

    def __init__(self, tasks: Iterable[str], clock: Clock, registry: CollectorRegistry | None) -> None:
        self._clock = clock
        self._began: dict[Claim, float] = {}
        ended = Counter(
            "dibs_worker_jobs", "Claims that have ended, by how they did.", ["task", "outcome"], registry=registry
        )
        seconds = Histogram(
            "dibs_worker_job_seconds", "How long handlers ran.", ["task"], buckets=_SECONDS, registry=registry
        )
        running = Gauge(
            "dibs_worker_running_jobs",
            "Handlers that run now.",
            ["task"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        names = list(tasks)
        # Found once, for that is dear; and made now, see ``shared``.
        self._ended = {(task, outcome): ended.labels(task, outcome) for task in names for outcome in OUTCOMES}
        self._seconds = {task: seconds.labels(task) for task in names}
        self._running = {task: running.labels(task) for task in names}

    @classmethod
    def of(cls, app: App, registry: CollectorRegistry = REGISTRY) -> Metrics:
        """Count what workers of an app do, in this process: ``dibs.Worker(app, meter=Metrics.of(app))``."""
        return cls(app.tasks, app.runtime.clock, registry)

    def begun(self, claim: Claim) -> None:
        """A handler begins."""
        self._began[claim] = self._clock.monotonic()
        self._running[claim.task].inc()

    def left(self, claim: Claim) -> None:
        """It has ended, or was given up."""
        self._running[claim.task].dec()
        self._seconds[claim.task].observe(self._clock.monotonic() - self._began.pop(claim))

    def ended(self, task: str, outcome: str) -> None:
        """A claim has ended."""
        self._ended[task, outcome].inc()


@contextmanager
def shared(folder: Path, place: int) -> Iterator[None]:
    """Have the numbers that are made in this block kept in a folder, under a place that no other process has meanwhile.

    Whoever takes the place of one that has ended goes on with its numbers, so they never fall. What is made after the
    block, by handlers that count something of their own, has nothing to do with it, nor have programs that they start.
    """
    before, kind = os.environ.get(_VARIABLE), values.ValueClass
    os.environ[_VARIABLE] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        values.ValueClass = kind
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def gone(folder: Path, place: int) -> None:
    """Note that the process of a place has ended: nothing runs there now."""
    mark_process_dead(place, str(folder))  # type: ignore[no-untyped-call]


def of_one() -> CollectorRegistry:
    """Make what ``Metrics`` of this process alone are kept in, and nothing else."""
    return CollectorRegistry()


def of_all(folder: Path) -> CollectorRegistry:
    """Add up what all processes have counted that have a place in this folder."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    return registry


@contextmanager
def served(registry: CollectorRegistry, host: str, port: int) -> Iterator[str]:
    """Show the numbers to whoever asks, for as long as the block lasts; give the address."""
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        raise InvalidRequest([Problem("metrics_port", f"cannot listen on {host} port {port}: {error}")]) from None
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
