"""Jobs from a file, one a line: read, checked and sent in parts, so that the file may be of any length."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dibs.cli.asking import progress
from dibs.cli.given import json_of
from dibs.cli.output import print_json_lines, remark
from dibs.domain.errors import DibsError, Invalid, InvalidRequest, Problem
from dibs.domain.settings import MAX_BATCH, MIB
from dibs.server.reading import fit
from dibs.wire.asked import NewTask
from dibs.wire.show import task_of
from dibs.wire.taken import new_job_of

if TYPE_CHECKING:
    from dibs.app import App
    from dibs.domain.job import Job
    from dibs.domain.newjob import NewJob

PART_BYTES = 8 * MIB
"""Of the lines of one part: half of what a call may take."""

_INDEX = re.compile(r"jobs\[(\d+)\]\.?")

Numbered = tuple[int, "NewJob"]


def enqueue_lines(app: App, path: Path, *, json: bool) -> int:
    """Enqueue what the lines say, part by part; what went in before a bad line is told."""
    added = known = 0
    with _opened(path) as (file, size):
        try:
            with progress("enqueue", size, quiet=json) as advance:
                for part, length in _parts(file):
                    jobs = _send(app, part)
                    known += (again := sum(job.was_duplicate for job in jobs))
                    added += len(jobs) - again
                    advance(length)
                    if json:
                        print_json_lines(task_of(job, duplicate=True) for job in jobs)
        except (DibsError, KeyboardInterrupt):
            if added:
                remark(f"{added:,} jobs were enqueued before that")
            raise
    if not json:
        print(f"enqueued {added:,}" + (f", {known:,} were there already" if known else ""))
    return 0


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], int | None]]:
    if str(path) == "-":
        with nullcontext(sys.stdin.buffer) as file:
            yield file, None
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidRequest([Problem("lines", f"{path} cannot be read: {error.strerror}")]) from None
    with file:
        yield file, path.stat().st_size


def _parts(file: IO[bytes]) -> Iterator[tuple[list[Numbered], int]]:
    """Read parts that fit one call, each with the bytes that it took. Lines with nothing on them are passed over."""
    part: list[Numbered] = []
    length = 0
    for number, line in enumerate(file, 1):
        if part and (len(part) == MAX_BATCH or length + len(line) > PART_BYTES):
            yield part, length
            part, length = [], 0
        length += len(line)
        if line.strip():
            part.append((number, _job(number, line)))
    if part:
        yield part, length


def _job(number: int, line: bytes) -> NewJob:
    try:
        return new_job_of(fit(json_of("", line), (NewTask,)))
    except Invalid as error:
        raise InvalidRequest([Problem(f"line {number}", _said(problem)) for problem in error.problems]) from None


def _said(problem: Problem) -> str:
    return str(problem) if problem.field else problem.message


def _send(app: App, part: list[Numbered]) -> list[Job]:
    try:
        return app.sync.enqueue_many([new for _, new in part])
    except DibsError as error:
        # What the broker says of the third of them is said of the line that it stood on.
        error.message = _INDEX.sub(lambda found: f"line {part[int(found[1])][0]}: ", error.message)
        raise
