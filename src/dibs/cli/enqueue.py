"""``dibs enqueue``: one job from the command line, or many from a file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dibs.cli.given import json_of
from dibs.cli.lines import enqueue_lines
from dibs.cli.options import Json, Link
from dibs.cli.output import print_json, remark
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.newjob import NewJob
from dibs.domain.retry import Backoff
from dibs.wire.show import task_of


def enqueue(
    task: Annotated[str | None, Parameter(help="The name of the task.")] = None,
    params: Annotated[str | None, Parameter(help="Its params, as JSON.", allow_leading_hyphen=True)] = None,
    /,
    *,
    lines: Annotated[
        Path | None,
        Parameter(
            help="A file with one JSON object a line, with the fields of POST /api/tasks; - is the input.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    id: Annotated[str | None, Parameter(help="Its id; else one is made.")] = None,
    queue: Annotated[str | None, Parameter(help="The queue; else default.")] = None,
    priority: Annotated[
        str | None, Parameter(help="A number, higher first, or low, normal, high.", allow_leading_hyphen=True)
    ] = None,
    delay: Annotated[float | None, Parameter(help="Due in so many seconds.")] = None,
    scheduled_at: Annotated[str | None, Parameter(help="Due at this time, as 2030-01-31T08:00:00Z.")] = None,
    max_attempts: Annotated[int | None, Parameter(help="How often it is tried.")] = None,
    retry_base: Annotated[float | None, Parameter(help="Back-off: seconds before the second attempt.")] = None,
    retry_cap: Annotated[float | None, Parameter(help="Back-off: seconds before any attempt, at the most.")] = None,
    timeout: Annotated[float | None, Parameter(help="Seconds that an attempt may take.")] = None,
    lease: Annotated[float | None, Parameter(help="Seconds that a claim lasts each time.")] = None,
    retention: Annotated[float | None, Parameter(help="Seconds that it is kept after its end.")] = None,
    idempotency_key: Annotated[str | None, Parameter(help="One job for this key, for as long as it is kept.")] = None,
    unique: Annotated[
        bool, Parameter(help="Not if one with the same task, queue and params is unfinished.", negative=())
    ] = False,
    unique_key: Annotated[str | None, Parameter(help="Not if one with this key is unfinished.")] = None,
    batch: Annotated[str | None, Parameter(help="The batch that it belongs to.")] = None,
    tag: Annotated[list[str] | None, Parameter(help="A tag; may be repeated.", negative=())] = None,
    json: Json = False,
    link: Link = Link(),
) -> int:
    """Add a job, or many: one in each line of a file.

    Prints the job's id. Lines go in up to 1,000 at a time, each such part all or nothing. A SQLite file that is not
    there is made.
    """
    options = {
        "id": id,
        "queue": queue,
        "priority": _priority(priority),
        "delay": delay,
        "scheduled_at": _moment(scheduled_at),
        "max_attempts": max_attempts,
        "retry": _backoff(retry_base, retry_cap),
        "timeout": timeout,
        "lease": lease,
        "retention": retention,
        "idempotency_key": idempotency_key,
        "unique_key": unique_key,
        "batch": batch,
    }
    if lines is not None:
        if task is not None or unique or tag or any(value is not None for value in options.values()):
            raise InvalidRequest([Problem("lines", "each line has its own task and options; give none beside it")])
        with link.app(make=True) as app:
            return enqueue_lines(app, lines, json=json)
    if task is None:
        raise InvalidRequest(
            [Problem("task", "name a task, as in `dibs enqueue resize '{\"width\": 80}'`, or --lines")]
        )
    given = None if params is None else json_of("params", params)
    new = NewJob(task, given, unique=unique, tags=tag or (), **options)  # type: ignore[arg-type]  # each is of its own kind
    with link.app(make=True) as app:
        [job] = app.sync.enqueue_many([new])
    if json:
        print_json(task_of(job, duplicate=True))
        return 0
    print(job.id)
    if job.was_duplicate:
        remark(f"it was there already, {job.status}; nothing was added")
    return 0


def _priority(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else text


def _backoff(base: float | None, cap: float | None) -> Backoff | None:
    if base is None and cap is None:
        return None
    usual = Backoff()
    return Backoff(usual.base if base is None else base, usual.cap if cap is None else cap)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest([Problem("scheduled_at", "must be a time, such as 2030-01-31T08:00:00Z")]) from None
