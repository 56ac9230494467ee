"""What a worker process is to do, as it was asked for on the command line; by one process, or by each of several."""

from __future__ import annotations

import logging
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dibs.cli.load import load_app, place_of
from dibs.domain.errors import DibsError, InvalidRequest, Problem
from dibs.worker import Worker, crew
from dibs.worker.shares import MOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.app import App
    from dibs.worker.meter import Meter

logger = logging.getLogger("dibs")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The options that each process heeds."""

    app: str
    imports: list[str]
    queue: list[str] | None
    task: list[str] | None
    concurrency: int
    prefetch: int | None
    lease: float | None
    grace: float
    handler_processes: int | None
    worker_id: str | None
    renew_after_jobs: int | None
    renew_above_mib: int | None
    health_file: str | None
    verbose: bool
    until_idle: bool
    metrics: str | None = None  # the folder in which several processes count together

    def make(self, meter: Callable[[App], Meter | None] = lambda _: None) -> Worker:
        """Find the app, and make a worker of it; whatever is wrong with the order is told now."""
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        if self.verbose:
            logger.setLevel(logging.DEBUG)
        app = load_app(self.app, self.imports)
        return Worker(
            app,
            worker_id=self.worker_id,
            queues=_queues(self.queue),
            tasks=self.task,
            concurrency=self.concurrency,
            prefetch=self.prefetch,
            lease=self.lease,
            grace=self.grace,
            handler_processes=self.handler_processes,
            renew_after_jobs=self.renew_after_jobs,
            renew_above_mib=self.renew_above_mib,
            meter=meter(app),
            health_file=self.health_file,
        )

    def announce(self, worker: Worker) -> None:
        """Say what is about to run."""
        tasks, queues = ", ".join(worker.tasks), ", ".join(self.queue) if self.queue else "all queues"
        where = place_of(worker.app) or repr(worker.app)
        logger.info(
            "worker %s runs %s from %s of %s, %d at once", worker.worker_id, tasks, queues, where, self.concurrency
        )


def member(given: str, file: int, place: int) -> int:
    """Carry out an order as one of several processes; give the exit status."""
    order = msgspec.json.decode(given, type=Order)
    if order.worker_id is not None:
        order = msgspec.structs.replace(order, worker_id=f"{order.worker_id}-{place}")
    if order.health_file is not None:
        order = msgspec.structs.replace(order, health_file=f"{order.health_file}.{place}")
    try:
        worker = order.make(lambda app: _meter(order, app, place))
        order.announce(worker)
        status = crew.serve(worker, file, partial(_tidy, order), until_idle=order.until_idle)
    except DibsError as error:
        logger.error("a worker process cannot go on: %s", error)  # noqa: TRY400 - a sentence says it
        return error.exit_code
    logger.info("worker %s has stopped; %d given back", worker.worker_id, worker.given_back)
    return status


def _meter(order: Order, app: App, place: int) -> Meter | None:
    """Make what counts along with the other processes, if that was asked for."""
    if order.metrics is None:
        return None
    from dibs.worker.metrics import Metrics, shared

    with shared(Path(order.metrics), place):
        return Metrics(app.tasks, app.runtime.clock, None)


def _tidy(order: Order) -> None:
    """Remove what was shared, since no one else is left to do it; who still counts there counts for no one."""
    if order.metrics is not None:
        shutil.rmtree(order.metrics, ignore_errors=True)


def _queues(given: list[str] | None) -> list[str] | dict[str, int] | None:
    """Read the queues: by name alone, or with weights if any has one; one without counts 1 among those."""
    if given is None or not any("=" in text for text in given):
        return given
    weights: dict[str, int] = {}
    problems: list[Problem] = []
    for text in given:
        name, sign, weight = text.partition("=")
        if sign and not (weight.isascii() and weight.isdigit() and 1 <= int(weight[:9]) <= MOST):
            problems.append(Problem("queue", f"{text!r}: the weight must be a whole number from 1 to {MOST}"))
        elif name in weights:
            problems.append(Problem("queue", f"{name!r} is given twice; give it one weight"))
        else:
            weights[name] = int(weight) if sign else 1
    if problems:
        raise InvalidRequest(problems)
    return weights
