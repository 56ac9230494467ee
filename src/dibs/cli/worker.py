"""``dibs worker``: run an app's tasks."""

from __future__ import annotations

import logging
from typing import Annotated

from cyclopts import Parameter

from dibs.cli.load import load_app, place_of
from dibs.domain.errors import InvalidRequest, Problem
from dibs.worker import Worker
from dibs.worker.shares import MOST

logger = logging.getLogger("dibs")


def worker(
    app: Annotated[str, Parameter(help="Where the app is: package.module:app.")],
    /,
    *,
    concurrency: Annotated[int, Parameter(help="How many handlers run at once.")] = 10,
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
    handler_processes: Annotated[
        int | None, Parameter(help="How many processes there are for tasks with process=True; else one for each CPU.")
    ] = None,
    worker_id: Annotated[str | None, Parameter(help="Its name; else made of the host and the process.")] = None,
    verbose: Annotated[bool, Parameter(help="Log every job.", negative=())] = False,
    until_idle: Annotated[bool, Parameter(help="End when there is nothing left to do.", negative=())] = False,
) -> int:
    """Run the tasks of an app until SIGTERM or Ctrl-C.

    At the first signal it claims nothing more, lets running handlers finish, and gives back the rest; at the second it
    does not wait for them.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if verbose:
        logger.setLevel(logging.DEBUG)
    found = load_app(app, import_ or [])
    made = Worker(
        found,
        worker_id=worker_id,
        queues=_queues(queue),
        tasks=task,
        concurrency=concurrency,
        prefetch=prefetch,
        lease=lease,
        grace=grace,
        handler_processes=handler_processes,
    )
    tasks, queues = ", ".join(made.tasks), ", ".join(queue) if queue else "all queues"
    where = place_of(found) or repr(found)
    logger.info("worker %s runs %s from %s of %s, %d at once", made.worker_id, tasks, queues, where, concurrency)
    made.main(until_idle=until_idle)
    logger.info("worker %s has stopped; %d given back", made.worker_id, made.given_back)
    return 0


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
