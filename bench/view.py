"""What can be seen while it runs: bars on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Step:
    """Something that is under way."""

    def __init__(self, progress: Progress | None = None, task: TaskID | None = None) -> None:
        self._progress, self._task = progress, task

    def advance(self, by: int = 1) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, by)

    def at(self, done: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done)


class View:
    """Talks on standard error: standard output is for the result."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._depth = 0
        self._progress: Progress | None = None
        if console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description:<44}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    @contextmanager
    def step(self, about: str, total: int) -> Iterator[Step]:
        if self._progress is not None:
            task = self._progress.add_task(about, total=total)
            try:
                yield Step(self._progress, task)
            finally:
                self._progress.remove_task(task)
            return
        began = time.perf_counter()
        self._depth += 1
        try:
            yield Step()
        finally:
            self._depth -= 1
        if self._depth:
            return  # a part of something that will be told
        print(f"bench: {about}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
