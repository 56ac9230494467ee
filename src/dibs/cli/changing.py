"""What ``dibs redrive`` and ``dibs purge`` have in common: jobs by name at once, many only after a look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec
from cyclopts import Parameter

from dibs.broker.protocol import Changes
from dibs.cli.asking import confirmed, progress, watched
from dibs.cli.errors import COLUMNS, Groups, row
from dibs.cli.options import Link, Which
from dibs.cli.output import print_json, print_table, remark
from dibs.cli.reading import near_queue, no_such_job, pages
from dibs.domain.errors import InvalidRequest, NotFound, Problem, UniqueConflict, WrongState
from dibs.domain.job import Status

if TYPE_CHECKING:
    from dibs.app import App
    from dibs.domain.job import Filter, Job

SHOWN = 20
"""Groups of a preview."""

Ended: TypeAlias = Literal["failed", "completed", "cancelled"]
Act: TypeAlias = Callable[..., Changes]


@Parameter(name="*")
@dataclass(frozen=True)
class Many:
    """Which finished jobs are meant, where they are not named."""

    status: Annotated[
        list[Ended] | None, Parameter(help="That ended so; failed unless said. May be repeated.", negative=())
    ] = None
    error: Annotated[str | None, Parameter(help="With this in the kind, the code or the message of the error.")] = None
    all: Annotated[bool, Parameter(help="All of them, where nothing narrows it down.", negative=())] = False

    @property
    def any(self) -> bool:
        """Whether anything was asked for."""
        return bool(self.status or self.error or self.all)

    def wants(self, job: Job) -> bool:
        """Say whether a job that the store has found is meant."""
        if self.error is None:
            return True
        error = job.error
        return error is not None and any(self.error in text for text in (error.kind, error.code or "", error.message))


@dataclass(frozen=True)
class How:
    """How it is to be done."""

    verb: str  # as the command is called
    done: str  # as it is told afterwards
    by: str
    dry_run: bool
    yes: bool
    json: bool


def change(ids: tuple[str, ...], which: Which, many: Many, how: How, link: Link) -> int:
    """Do it to the jobs that are named, or to those that match once that was agreed to."""
    narrowed = which.any or many.any
    if bool(ids) == narrowed:
        what = "not both" if ids else "or all of them with --all"
        raise InvalidRequest([Problem("ids", f"name jobs, or say which (as with --task or --error), {what}")])
    with link.app() as app:
        act: Act = getattr(app.sync, how.verb)
        changes = _named(app, act, ids, how) if ids else _matching(app, act, which, many, how)
    if changes is None:
        return 0
    if how.json:
        print_json(changes)
    else:
        print(told(changes, how))
    return 0


def _named(app: App, act: Act, ids: tuple[str, ...], how: How) -> Changes:
    try:
        return act(*ids, dry_run=how.dry_run, by=how.by)
    except NotFound:
        raise no_such_job(app, ids[0]) from None


def _matching(app: App, act: Act, which: Which, many: Many, how: How) -> Changes | None:
    where = which.filter([Status(status) for status in many.status or ["failed"]])
    total: int | None = None
    if how.dry_run or not how.yes or watched():  # else no one wants to know beforehand: it is read once, not twice
        groups = _look(app, where, many)
        total = groups.jobs
        if total and not how.json and (how.dry_run or not how.yes):
            _preview(groups, app.runtime.clock.now())
        if total and not how.dry_run and not how.yes and not confirmed(f"{how.verb.capitalize()} {total:,} jobs?"):
            remark("nothing was done")
            return None
    if how.dry_run:
        changes = Changes(matched=total or 0, dry_run=True)
    else:
        changes = _act(app, act, where, many=many, how=how, total=total)
    if changes == Changes(dry_run=how.dry_run):
        remark((near_queue(app, which.queue) if which.queue else None) or "no job matches")
    return changes


def _look(app: App, where: Filter, many: Many) -> Groups:
    groups = Groups()
    for page in _wanted(app, where, many):
        groups.add(page)
    return groups


def _wanted(app: App, where: Filter, many: Many) -> Iterator[list[Job]]:
    """Read what matches, oldest first: what has waited longest is due first again."""
    for page in pages(app, where, oldest_first=True):
        if wanted := [job for job in page if many.wants(job)]:
            yield wanted


def _preview(groups: Groups, now: int) -> None:
    found = groups.biggest()
    print_table(COLUMNS, (row(group, now) for group in found[:SHOWN]))
    if len(found) > SHOWN:
        print(f"… and {len(found) - SHOWN:,} more kinds of error")


def _act(app: App, act: Act, where: Filter, *, many: Many, how: How, total: int | None) -> Changes:
    """Do it page by page. The store compares each job again as it is written, so none is changed that moved on."""
    changes = Changes()
    try:
        with progress(how.verb, total, quiet=how.json) as advance:
            for page in _wanted(app, where, many):
                changes = _add(changes, _step(act, [job.id for job in page], how.by))
                advance(len(page))
    except KeyboardInterrupt:
        remark(f"interrupted: {told(changes, how)} so far")
        raise
    return changes


def _step(act: Act, ids: Sequence[str], by: str) -> Changes:
    """Do it to some; of one alone, that it cannot be done is counted too."""
    try:
        return act(*ids, by=by)
    except NotFound:
        return Changes(missing=1)
    except UniqueConflict:
        return Changes(matched=1, conflicts=1)
    except WrongState:
        return Changes(matched=1, refused=1)


def _add(one: Changes, other: Changes) -> Changes:
    names = [field for field in msgspec.structs.asdict(one) if field != "dry_run"]
    return Changes(**{name: getattr(one, name) + getattr(other, name) for name in names})


def told(changes: Changes, how: How) -> str:
    """Say what became of it, in a line."""
    if changes.dry_run:
        missing = f", {changes.missing:,} not found" if changes.missing else ""
        return f"would {how.verb} {changes.matched:,}{missing}; nothing was done"
    other = {
        "had moved on": changes.refused,
        "done before": changes.repeated,
        "not found": changes.missing,
        "held back by a newer job with their unique key": changes.conflicts,
    }
    return ", ".join([f"{how.done} {changes.changed:,}", *(f"{n:,} {what}" for what, n in other.items() if n)])
