"""``dibs batches``: how far batches have come, by looking at their jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from dibs.cli.asking import progress
from dibs.cli.options import Jsonl, Link
from dibs.cli.output import Cell, Column, Painted, clean, print_json_lines, print_table, remark
from dibs.cli.reading import pages
from dibs.domain.batch import info_of
from dibs.domain.errors import InvalidRequest, NotFound, Problem
from dibs.domain.job import Filter, Status
from dibs.wire.batches import Batch, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.app import App

COLUMNS = (
    Column("BATCH"),
    Column("DONE", right=True),
    *(Column(title, right=True) for title in ("JOBS", "PENDING", "CLAIMED", "COMPLETED", "FAILED", "CANCELLED")),
)
RECENT = 10_000
LOOK = 0.5
"""Seconds between two moves of the bar."""


def batches(
    *ids: Annotated[str, Parameter(help="These; each is counted to its last job.")],
    watch: Annotated[bool, Parameter(help="Wait until they have ended, with a bar meanwhile.", negative=())] = False,
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """Say how far batches have come.

    Without ids: those that the newest 10,000 jobs belong to, newest first; one that began before them is marked with ~.
    """
    if watch and not ids:
        raise InvalidRequest([Problem("watch", "is for batches that are named: dibs batches ID --watch")])
    with link.app() as app:
        if watch:
            _watch(app, ids, quiet=json)
        found = (_named(app, id) for id in ids) if ids else _recent(app)
        number = print_json_lines(found) if json else print_table(COLUMNS, map(_row, found))
    if not number:
        remark("no batch was found: a job joins one with `batch`, or `dibs enqueue --batch`")
    return 0


def _watch(app: App, ids: tuple[str, ...], *, quiet: bool) -> None:
    """Wait until all of them have ended."""
    for id in ids:
        batch, finished = app.sync.batch(id=id), 0
        with progress(clean(id), batch.progress().total, quiet=quiet) as advance:
            ended = False
            while not ended:
                try:
                    info, ended = batch.wait(LOOK), True
                except TimeoutError:
                    info = batch.progress()
                advance(info.finished - finished)
                finished = info.finished


def _named(app: App, id: str) -> Batch:
    counted: Counter[Status] = Counter()
    for page in pages(app, Filter(batch_id=id)):
        counted.update(job.status for job in page)
    if not counted:
        raise NotFound(f"there is no batch {id!r}", hint="Its jobs may have been pruned after their retention time.")
    return batch_of(info_of(id, counted, exact=True))


def _recent(app: App) -> Iterator[Batch]:
    """Count what the newest jobs belong to; whether it is all of a batch is not known unless all jobs were seen."""
    counted: dict[str, Counter[Status]] = {}
    read = 0
    for page in pages(app, Filter(), limit=RECENT):
        read += len(page)
        for job in page:
            if job.batch_id is not None:
                counted.setdefault(job.batch_id, Counter())[job.status] += 1
    for id, numbers in counted.items():
        yield batch_of(info_of(id, numbers, exact=read < RECENT))


def _row(batch: Batch) -> list[Cell]:
    failed = f"{batch.failed:,}"
    return [
        clean(batch.batch_id),
        f"{batch.progress:.0%}",
        f"{'' if batch.exact else '~'}{batch.total:,}",
        f"{batch.pending:,}",
        f"{batch.claimed:,}",
        f"{batch.completed:,}",
        Painted(failed, "red") if batch.failed else failed,
        f"{batch.cancelled:,}",
    ]
