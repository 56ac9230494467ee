"""``dibs queues``, ``dibs pause`` and ``dibs resume``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from dibs.app import App
from dibs.broker.handover import is_mark
from dibs.cli.options import By, Jsonl, Link, actor
from dibs.cli.output import Cell, Column, Painted, print_json_lines, print_table, remark, span
from dibs.cli.reading import near_queue
from dibs.domain.errors import InvalidRequest, NotFound, Problem, WrongState
from dibs.domain.job import QueueInfo
from dibs.domain.retry import SECOND
from dibs.store import PAUSED
from dibs.wire.answered import Switched
from dibs.wire.show import queue_of

COLUMNS = (
    Column("QUEUE"),
    Column("STATE", whole=True),
    *(Column(title, right=True) for title in ("PENDING", "LATER", "CLAIMED", "DONE", "FAILED", "CANCELLED", "WAITED")),
)

Names = Annotated[str, Parameter(help="The queues.")]


def queues(
    *names: Annotated[str, Parameter(help="Only these.")],
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """List the queues: how many jobs in each state, and how long they wait.

    Counts above 10,000 are marked with ~: they may be a minute old.
    """
    with link.app() as app:
        found = [info for info in app.sync.queues() if not names or info.queue in names]
        now = app.runtime.clock.now()
        for name in sorted(set(names) - {info.queue for info in found}):
            raise NotFound(near_queue(app, name) or f"there is no queue {name!r}", hint="")
    if json:
        print_json_lines(queue_of(info, now) for info in found)
    elif not print_table(COLUMNS, (queue_row(info, now) for info in found)):
        remark("there are no queues: nothing has been enqueued")
    return 0


def queue_row(info: QueueInfo, now: int) -> list[Cell]:
    """Show one queue."""
    counts = info.counts
    mark = "" if counts.exact else "~"
    numbers = [counts.pending, counts.scheduled, counts.claimed, counts.completed, counts.failed, counts.cancelled]
    shown: list[Cell] = [f"{mark if number else ''}{number:,}" for number in numbers]
    if counts.failed:
        shown[4] = Painted(f"{mark}{counts.failed:,}", "red")
    waited = "" if info.oldest_due_us is None else span(max(0, now - info.oldest_due_us) / SECOND)
    return [info.queue, Painted("paused", "yellow") if info.paused else "", *shown, waited]


def pause(
    *names: Names,
    by: By = None,
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """Let queues hand out nothing until they are resumed.

    What is running goes on. A queue that has no jobs yet can be paused too, and is told of.
    """
    return _switch(names, by, link, paused=True, json=json)


def resume(
    *names: Names,
    by: By = None,
    yes: Annotated[bool, Parameter(help="Even if another store has taken over its jobs.", negative=())] = False,
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """Let queues hand out jobs again."""
    return _switch(names, by, link, paused=False, json=json, moved_too=yes)


async def _is_moved(app: App, queue: str) -> bool:
    """Say whether a copy has paused it."""
    pause = await app.runtime.broker().read(PAUSED + queue)
    return pause is not None and is_mark(pause)


def _switch(
    names: tuple[str, ...], by: str | None, link: Link, *, paused: bool, json: bool, moved_too: bool = True
) -> int:
    if not names:
        raise InvalidRequest([Problem("queue", "name at least one; `dibs queues` lists them")])
    done = "paused" if paused else "resumed"
    with link.app() as app:
        unknown = {name: said for name in names if (said := near_queue(app, name))}
        if unknown and not paused:
            raise NotFound("; ".join(unknown.values()), hint="Nothing was resumed.")
        for name in names:
            if not moved_too and app.runtime.run(_is_moved(app, name)):
                raise WrongState(
                    f"queue {name!r} was copied to another store, which hands out its jobs now",
                    hint="With --yes it is resumed all the same: then jobs may run from both.",
                )
            (app.sync.pause if paused else app.sync.resume)(name, by=actor(by))
            if json:
                print_json_lines([Switched(queue=name, paused=paused, message=f"Queue {done}")])
            else:
                print(f"{done} {name}")
            if name in unknown:
                remark(f"{unknown[name]} (It is paused all the same.)")
    return 0
