"""What Prometheus is told: counted here as it happens, or derived from the store when it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

from dibs.domain.job import Outcome
from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from dibs.broker.protocol import Broker
    from dibs.clock import Clock
    from dibs.domain.job import QueueInfo

MEDIA = CONTENT_TYPE_LATEST
STORE_AGE = 5.0
"""Seconds for which what was read from the store is shown again: scrapers cost it one look, however many there are."""

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_STATES = ("pending", "scheduled", "claimed", "completed", "failed", "cancelled")


class Metrics:
    """The numbers of one server: of this process, or, with a folder where ``share`` writes them, of all of its own."""

    def __init__(self, clock: Clock, shared: Path | None = None) -> None:
        self._clock = clock
        self._read_at: float | None = None
        self._shown = CollectorRegistry()
        self._queues = _Queues(clock)
        self._shown.register(self._queues)
        registry = None if shared else self._shown
        if shared:
            MultiProcessCollector(self._shown, str(shared))  # type: ignore[no-untyped-call]
        self._requests = Counter(
            "dibs_http_requests", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self._asked: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # found once, for that is dear
        self._seconds = Histogram(
            "dibs_http_request_seconds",
            "How long requests took, with the time that claims have waited.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._claims = Counter("dibs_claims", "Jobs handed out.", registry=registry)
        self._settles = Counter("dibs_settles", "Claims ended, by what became of it.", ["outcome"], registry=registry)
        self._retries = Counter("dibs_retries", "Failures after which a job is tried again.", registry=registry)
        self._lost = Counter("dibs_lost_leases", "Calls from a holder that was taken over.", registry=registry)

    def answered(self, method: str, route: str, status: int, seconds: float | None = None) -> None:
        """Count a request, and how long it took."""
        key = (method, route, status)
        known = self._asked.get(key)
        if known is None:
            known = (self._requests.labels(method, route, str(status)), self._seconds.labels(method, route))
            self._asked[key] = known
        known[0].inc()
        if seconds is not None:
            known[1].observe(seconds)

    def claimed(self, jobs: int) -> None:
        """Count jobs that were handed out."""
        self._claims.inc(jobs)

    def settled(self, outcomes: Iterable[Outcome]) -> None:
        """Count claims that were ended, or were not any more."""
        for outcome in outcomes:
            self._settles.labels(outcome.value).inc()
            if outcome is Outcome.LOST:
                self._lost.inc()

    def retried(self, jobs: int) -> None:
        """Count failures after which a job is tried again."""
        self._retries.inc(jobs)

    def extended(self, outcomes: Iterable[Outcome]) -> None:
        """Count claims that turned out to be lost."""
        self._lost.inc(sum(outcome is Outcome.LOST for outcome in outcomes))

    async def page(self, broker: Broker) -> bytes:
        """Write it all down, with what the store says of its queues."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= STORE_AGE:
            self._read_at = now  # before it is read: those who ask meanwhile get what there was
            await self._read(broker)
        return generate_latest(self._shown)

    async def _read(self, broker: Broker) -> None:
        try:
            self._queues.show(await broker.queues())
        except BaseException:
            self._read_at = None
            raise


class _Queues:
    """What the store says of its queues: true for whoever asks, so it is not counted with other processes' numbers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._families: list[GaugeMetricFamily] = []

    def show(self, queues: list[QueueInfo]) -> None:
        """Show this from now on."""
        jobs = GaugeMetricFamily("dibs_queue_jobs", "Jobs of a queue, by state.", labels=["queue", "state"])
        oldest = GaugeMetricFamily(
            "dibs_queue_oldest_due_seconds", "For how long the oldest due job has been due.", labels=["queue"]
        )
        for info in queues:
            for state in _STATES:
                jobs.add_metric([info.queue, state], getattr(info.counts, state))
            late = 0 if info.oldest_due_us is None else max(0, self._clock.now() - info.oldest_due_us)
            oldest.add_metric([info.queue], late / SECOND)
        self._families = [jobs, oldest]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Give the numbers, as the registry asks for them."""
        yield from self._families


def share(folder: Path, place: int) -> None:
    """Keep the numbers of this process in a folder, under its place among the others.

    Whoever takes a dead one's place goes on with its numbers, so they never fall. Called before any are made.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]
