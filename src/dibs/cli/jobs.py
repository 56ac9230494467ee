"""``dibs jobs``: find jobs, or look at some of them closely."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from dibs.cli.options import Jsonl, Link, Which
from dibs.cli.output import (
    Cell,
    Column,
    ago,
    clean,
    paint,
    print_json,
    print_json_lines,
    print_table,
    remark,
    span,
    status_cell,
    use_colour,
)
from dibs.cli.reading import near_queue, no_such_job, pages
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import Job, Status
from dibs.domain.retry import SECOND
from dibs.wire.show import task_of

if TYPE_CHECKING:
    from dibs.app import App

COLUMNS = (
    Column("ID", whole=True),
    Column("STATUS", whole=True),
    Column("QUEUE"),
    Column("TASK"),
    Column("TRIED", right=True),
    Column("AGE", right=True),
    Column("WHAT"),
)


def jobs(
    *ids: Annotated[str, Parameter(help="Show these in full.")],
    status: Annotated[list[Status] | None, Parameter(help="In this state; may be repeated.", negative=())] = None,
    which: Which = Which(),
    limit: Annotated[int, Parameter(help="How many, at the most.")] = 50,
    all: Annotated[bool, Parameter(help="All that match, page by page.", negative=())] = False,  # noqa: A002 - the option
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """List jobs, newest first, or show the ones that are named."""
    if limit < 1:
        raise InvalidRequest([Problem("limit", "must be 1 or more; --all lists everything")])
    with link.app() as app:
        if ids:
            _show_named(app, ids, json=json)
            return 0
        more = False

        def found() -> Iterator[Job]:
            nonlocal more
            read = 0
            for page in pages(app, which.filter(status), limit=None if all else limit + 1):
                for job in page:
                    if read == limit and not all:
                        more = True
                        return
                    read += 1
                    yield job

        now = app.runtime.clock.now()
        if json:
            number = print_json_lines(task_of(job) for job in found())
        else:
            number = print_table(COLUMNS, (_row(job, now) for job in found()))
        if not number:
            remark((near_queue(app, which.queue) if which.queue else None) or "no job matches")
        if more:
            remark(f"these are the newest {limit}; there are more: --limit N, or --all")
    return 0


def _row(job: Job, now: int) -> list[Cell]:
    return [
        job.id,
        status_cell(job.status),
        job.queue,
        job.task,
        f"{job.attempts}/{job.max_attempts}",
        span(max(0, now - job.created_us) / SECOND),
        _what(job, now),
    ]


def _what(job: Job, now: int) -> str:
    """Say the one thing that matters most about a job in its state."""
    if job.status is Status.CLAIMED:
        done = "" if job.progress is None else f", {job.progress:.0%} {job.progress_note}".rstrip()
        return clean(f"{job.worker_id}{done}")
    if job.status is Status.PENDING and job.scheduled_at is not None and job.due_us > now:
        why = f" after {job.error.kind}" if job.error else ""
        return clean(f"due {ago(job.due_us, now)}{why}")
    if job.error is not None and job.status in {Status.FAILED, Status.PENDING}:
        return clean(f"{job.error.kind}: {job.error.message}")
    return ""


def _show_named(app: App, ids: tuple[str, ...], *, json: bool) -> None:
    for number, id in enumerate(ids):
        job = app.sync.get(id)
        if job is None:
            raise no_such_job(app, id)
        if json:
            print_json(task_of(job))
            continue
        if number:
            print()
        _show(job)


def _show(job: Job) -> None:
    """Print every field that says something, under the name that it has in the HTTP API."""
    coloured = use_colour()
    fields = msgspec.json.decode(msgspec.json.encode(task_of(job)))
    widest = max(map(len, fields))
    for name, value in fields.items():
        if value is None or value in ("", []):
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if name == "error":
            text = f"{value['kind']}: {value['message']}"
        print(f"{paint(f'{name:<{widest}}', 'dim', coloured=coloured)}  {clean(text)}")
    if job.error is not None and job.error.traceback:
        print("traceback")
        for line in job.error.traceback.splitlines():
            print(" " * (len(line) - len(line.lstrip(" ")) + 2) + clean(line))
