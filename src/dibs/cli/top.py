"""``dibs top``: queues and workers, as they change."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from dibs.cli.options import Jsonl, Link
from dibs.cli.output import paint, print_json, table_lines, terminal_size, use_colour
from dibs.cli.queues import COLUMNS as QUEUE_COLUMNS
from dibs.cli.queues import queue_row
from dibs.cli.workers import COLUMNS as WORKER_COLUMNS
from dibs.cli.workers import worker_row
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import Counts, QueueInfo, WorkerInfo
from dibs.wire.answered import Count, Queue, Worker
from dibs.wire.show import count_of, queue_of, worker_of

if TYPE_CHECKING:
    from dibs.app import App

_ENTER, _LEAVE, _HOME, _REST, _LINE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H", "\x1b[J", "\x1b[K"


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed as a line of JSON."""

    counts: Count
    finished_per_second: float | None
    queues: list[Queue]
    workers: list[Worker]


class Seen(msgspec.Struct, frozen=True):
    """One look."""

    at: float
    now: int
    counts: Counts
    queues: list[QueueInfo]
    workers: list[WorkerInfo]

    def rate(self, before: Seen | None) -> float | None:
        """Say how many jobs have ended each second since the look before; none if that cannot be known."""
        if before is None or not (self.counts.exact and before.counts.exact):
            return None
        return max(0, _ended(self.counts) - _ended(before.counts)) / (self.at - before.at)


def top(
    *,
    interval: Annotated[float, Parameter(help="Seconds between two looks.")] = 1.0,
    looks: Annotated[int | None, Parameter(help="End after so many; else with Ctrl-C.")] = None,
    json: Jsonl = False,
    link: Link = Link(),
) -> int:
    """Watch queues and workers, live.

    On a terminal it fills the screen until Ctrl-C. Into a file or a pipe it prints one look, or as many as you
    say.
    """
    if interval <= 0 or (looks is not None and looks < 1):
        raise InvalidRequest([Problem("interval", "must be above 0, and looks at least 1")])
    screen = sys.stdout.isatty() and not json
    most = looks if looks is not None or screen or json else 1
    with link.app() as app, _screen(on=screen):
        before: Seen | None = None
        number = 0
        while True:
            seen = _look(app)
            if json:
                print_json(_shown(seen, before))
                sys.stdout.flush()
            else:
                _print(seen, before, screen=screen)
            before = seen
            number += 1
            if number == most:
                return 0
            time.sleep(interval)


@contextmanager
def _screen(*, on: bool) -> Iterator[None]:
    """Leave the terminal as it was, whatever happens."""
    if on:
        sys.stdout.write(_ENTER)
    try:
        yield
    finally:
        if on:
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()


def _look(app: App) -> Seen:
    sync = app.sync
    counts, queues, workers = sync.counts(), sync.queues(), sync.workers()
    return Seen(time.monotonic(), app.runtime.clock.now(), counts, queues, workers)


def _ended(counts: Counts) -> int:
    return counts.completed + counts.failed + counts.cancelled


def _shown(seen: Seen, before: Seen | None) -> Look:
    return Look(
        counts=count_of(seen.counts),
        finished_per_second=seen.rate(before),
        queues=[queue_of(info, seen.now) for info in seen.queues],
        workers=[worker_of(info) for info in seen.workers],
    )


def _print(seen: Seen, before: Seen | None, *, screen: bool) -> None:
    lines = list(_lines(seen, before))
    if not screen:
        print("\n".join(lines))
        return
    height = terminal_size().lines
    if len(lines) > height:
        lines = [*lines[: height - 1], f"… {len(lines) - height + 1} more lines"]
    sys.stdout.write(_HOME + "\n".join(line + _LINE for line in lines) + _REST)
    sys.stdout.flush()


def _lines(seen: Seen, before: Seen | None) -> Iterator[str]:
    counts, rate = seen.counts, seen.rate(before)
    mark = "" if counts.exact else "~"
    speed = "" if rate is None else f", {rate:,.0f} a second"
    yield paint(
        f"{mark}{counts.pending:,} pending, {mark}{counts.scheduled:,} later, {mark}{counts.claimed:,} claimed, "
        f"{mark}{_ended(counts):,} ended{speed}",
        "bold",
        coloured=use_colour(),
    )
    busiest = sorted(seen.queues, key=lambda info: (-info.counts.unfinished, info.queue))
    yield ""
    yield from table_lines(QUEUE_COLUMNS, (queue_row(info, seen.now) for info in busiest))
    yield ""
    there = [info for info in seen.workers if info.status != "inactive"]
    there.sort(key=lambda info: (-info.active_tasks, info.worker_id))
    yield from table_lines(WORKER_COLUMNS, (worker_row(info, seen.now) for info in there))
