"""``dibs exec``: any program as a handler."""

from __future__ import annotations

import logging
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from dibs.app import App
from dibs.cli.load import place_of
from dibs.domain.checks import check_name
from dibs.domain.errors import InvalidRequest, Problem
from dibs.worker import Worker
from dibs.worker.command import Command

logger = logging.getLogger("dibs")


def exec_(
    *command: Annotated[str, Parameter(help="The program and its arguments, after --.", allow_leading_hyphen=True)],
    task: Annotated[list[str], Parameter(help="Jobs of this task; may be repeated.", negative=())],
    queue: Annotated[list[str] | None, Parameter(help="Only jobs of this queue; may be repeated.", negative=())] = None,
    store: Annotated[str | None, Parameter(help="The store's URL, or a server's.")] = None,
    concurrency: Annotated[int, Parameter(help="How many run at once.")] = 1,
    lease: Annotated[float, Parameter(help="Seconds until a job is taken over from one that died.")] = 30.0,
    grace: Annotated[float, Parameter(help="Seconds that running programs may go on after SIGTERM.")] = 30.0,
    worker_id: Annotated[str | None, Parameter(help="Its name; else made of the host and the process.")] = None,
    verbose: Annotated[bool, Parameter(help="Log every job.", negative=())] = False,
    until_idle: Annotated[bool, Parameter(help="End when there is nothing left to do.", negative=())] = False,
) -> int:
    """Run a program for each job of a task, until SIGTERM or Ctrl-C.

    dibs exec --task resize -- ./resize --small

    The params are on its stdin, as JSON; what it prints is the result; DIBS_ID, DIBS_FENCE and DIBS_ATTEMPT are in its
    environment. It exits with 0: completed; with 100: failed for good; with anything else: failed, to be tried again.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if verbose:
        logger.setLevel(logging.DEBUG)
    _check(command, task)
    app = App(store)
    runs = Command(app, command, task, echo=_echo)
    # Nothing is claimed ahead: a program may run for long, and another worker be idle.
    worker = Worker(
        app, worker_id=worker_id, queues=queue, concurrency=concurrency, prefetch=0, lease=lease, grace=grace
    )
    tasks, queues = ", ".join(task), ", ".join(queue) if queue else "all queues"
    where = place_of(app) or repr(app)
    logger.info("worker %s runs %s for %s from %s of %s", worker.worker_id, command[0], tasks, queues, where)
    others: dict[signal.Signals, Callable[[], None]] = {
        number: partial(runs.pass_on, number) for number in (signal.SIGUSR1, signal.SIGUSR2)
    }
    others[signal.SIGTSTP] = runs.suspend
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under nohup
        others[signal.SIGHUP] = partial(worker.signalled, signal.SIGHUP)
    try:
        worker.main(until_idle=until_idle, signals=others)
    finally:
        runs.close()
    logger.info("worker %s has stopped; %d given back", worker.worker_id, worker.given_back)
    return 0


def _check(command: tuple[str, ...], tasks: list[str]) -> None:
    problems = [problem for task in tasks for problem in check_name("task", task)]
    if not command:
        problems.append(Problem("command", "is missing; put it last: dibs exec --task resize -- ./resize --small"))
    elif shutil.which(command[0]) is None:
        problems.append(Problem("command", f"{command[0]!r} cannot be run: there is no such program, or it may not be"))
    if problems:
        raise InvalidRequest(problems)


def _echo(said: bytes) -> None:
    sys.stderr.buffer.write(said)
    sys.stderr.buffer.flush()
