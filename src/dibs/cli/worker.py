"""``dibs worker``: run an app's tasks."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from dibs.cli.order import Order
from dibs.domain.checks import check_integer
from dibs.domain.errors import InvalidRequest, Problem
from dibs.worker.crew import MOST, Crew

if TYPE_CHECKING:
    from dibs.worker import Worker

logger = logging.getLogger("dibs")

MEMBER = "dibs.cli.order:member"


def worker(
    app: Annotated[str, Parameter(help="Where the app is: package.module:app.")],
    /,
    *,
    concurrency: Annotated[int, Parameter(help="How many handlers run at once, in each process.")] = 10,
    import_: Annotated[
        list[str] | None,
        Parameter(name="--import", help="A module that defines more of its tasks; may be repeated.", negative=()),
    ] = None,
    queue: Annotated[
        list[str] | None,
        Parameter(help="Only jobs of this queue; may be repeated. With weights: fast=5 and slow=1.", negative=()),
    ] = None,
    task: Annotated[list[str] | None, Parameter(help="Only jobs of this task; may be repeated.", negative=())] = None,
    prefetch: Annotated[int | None, Parameter(help="How many jobs may be claimed ahead, at the most.")] = None,
    lease: Annotated[float | None, Parameter(help="Seconds; else each job's own.")] = None,
    grace: Annotated[float, Parameter(help="Seconds that running handlers may go on after SIGTERM.")] = 30.0,
    processes: Annotated[int, Parameter(help="How many worker processes there are.")] = 1,
    handler_processes: Annotated[
        int | None, Parameter(help="How many processes there are for tasks with process=True; else one for each CPU.")
    ] = None,
    renew_after_jobs: Annotated[
        int | None, Parameter(help="Replace a process that has run so many jobs, or up to a tenth fewer.")
    ] = None,
    renew_above_mib: Annotated[
        int | None, Parameter(help="Replace a process that has so much memory, or up to a tenth less.")
    ] = None,
    metrics_port: Annotated[
        int | None, Parameter(help="Show numbers for Prometheus on this port; 0 takes any that is free.")
    ] = None,
    metrics_host: Annotated[str, Parameter(help="Where to show them.")] = "127.0.0.1",
    health_file: Annotated[
        str | None,
        Parameter(help="A file to write every few seconds while all is well; one for each of several processes."),
    ] = None,
    worker_id: Annotated[str | None, Parameter(help="Its name; else made of the host and the process.")] = None,
    verbose: Annotated[bool, Parameter(help="Log every job.", negative=())] = False,
    until_idle: Annotated[bool, Parameter(help="End when there is nothing left to do.", negative=())] = False,
) -> int:
    """Run the tasks of an app until SIGTERM or Ctrl-C.

    At the first signal it claims nothing more, lets running handlers finish, and gives back the rest; at the second it
    does not wait for them.
    """
    order = Order(
        app=app,
        imports=import_ or [],
        queue=queue,
        task=task,
        concurrency=concurrency,
        prefetch=prefetch,
        lease=lease,
        grace=grace,
        handler_processes=handler_processes,
        worker_id=worker_id,
        renew_after_jobs=renew_after_jobs,
        renew_above_mib=renew_above_mib,
        health_file=health_file,
        verbose=verbose,
        until_idle=until_idle,
    )
    _check(processes, metrics_port)
    with ExitStack() as stack:
        if processes == 1 and renew_after_jobs is None and renew_above_mib is None:
            _run_alone(order, metrics_port, metrics_host, stack)
        else:
            _run_crew(order, processes, metrics_port, metrics_host, stack)
    return 0


def _run_alone(order: Order, port: int | None, host: str, stack: ExitStack) -> None:
    if port is None:
        made = order.make()
    else:
        from dibs.worker import metrics

        registry = metrics.of_one()
        made = order.make(lambda app: metrics.Metrics.of(app, registry))
        logger.info("metrics are at %s", stack.enter_context(metrics.served(registry, host, port)))
    order.announce(made)
    made.main(until_idle=order.until_idle)
    logger.info("worker %s has stopped; %d given back", made.worker_id, made.given_back)
    if order.until_idle:
        _tell_of_later(made)


def _tell_of_later(made: Worker) -> None:
    """Say what it has left behind, such as retries that wait: it was not due."""
    if later := made.app.sync.counts().scheduled:
        logger.info("%d jobs are due later, and were left", later)
    made.app.sync.close()


def _run_crew(order: Order, number: int, port: int | None, host: str, stack: ExitStack) -> None:
    made = order.make()  # to be told here, and once, what is wrong with it
    _check_shareable(made)
    on_gone = None
    if port is not None:
        from dibs.worker import metrics

        folder = Path(stack.enter_context(TemporaryDirectory(prefix="dibs-")))
        order = msgspec.structs.replace(order, metrics=str(folder))
        on_gone = partial(metrics.gone, folder)
        logger.info("metrics are at %s", stack.enter_context(metrics.served(metrics.of_all(folder), host, port)))
    crew = Crew(
        MEMBER,
        msgspec.json.encode(order).decode(),
        number,
        made.app.runtime.clock,
        grace=made.grace,
        until_idle=order.until_idle,
        on_gone=on_gone,
    )
    asyncio.run(crew.run())
    logger.info("all worker processes have stopped")


def _check(processes: int, port: int | None) -> None:
    problems = check_integer("processes", processes, 1, MOST)
    if port is not None:
        problems += check_integer("metrics_port", port, 0, 65535)
    if problems:
        raise InvalidRequest(problems)


def _check_shareable(made: Worker) -> None:
    if made.app.url.startswith("memory:"):
        what = "each process would have a memory of its own; leave out --processes and --renew-…, or use sqlite:///"
        raise InvalidRequest([Problem("store", what)])
