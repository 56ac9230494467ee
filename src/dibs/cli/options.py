"""Options that several commands share, and the app that they lead to."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from dibs.app import App
from dibs.cli.load import existing
from dibs.domain.job import Filter, Status

Json = Annotated[bool, Parameter(help="Print as JSON, with the names that the HTTP API uses.", negative=())]
Jsonl = Annotated[
    bool, Parameter(name="--json", help="Print one JSON object a line, named as in the HTTP API.", negative=())
]
By = Annotated[str | None, Parameter(help="Who does it, for the log; else your name on this machine.")]
Yes = Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.", negative=())]
DryRun = Annotated[bool, Parameter(help="Only show what would be done.", negative=())]


@Parameter(name="*")
@dataclass(frozen=True)
class Link:
    """Where the jobs are."""

    store: Annotated[str | None, Parameter(help="The store's URL, or a server's.")] = None
    api_key: Annotated[str | None, Parameter(help="The server's key.")] = None

    @contextmanager
    def app(self, *, make: bool = False) -> Iterator[App]:
        """Open it, and let go of it at the end. A file that is not there is made only if that is wanted."""
        app = App(self.store, api_key=self.api_key) if make else existing(self.store, self.api_key)
        try:
            yield app
        finally:
            app.runtime.close_and_wait()


@Parameter(name="*")
@dataclass(frozen=True)
class Which:
    """Which jobs are meant."""

    queue: Annotated[str | None, Parameter(help="Of this queue.")] = None
    task: Annotated[str | None, Parameter(help="Of this task.")] = None
    worker_id: Annotated[str | None, Parameter(help="Held by this worker, or last held by it.")] = None
    batch_id: Annotated[str | None, Parameter(help="Of this batch.")] = None
    tag: Annotated[str | None, Parameter(help="With this tag.")] = None
    q: Annotated[str | None, Parameter(help="With this in the id, or in the params as JSON text.")] = None
    priority_min: Annotated[int | None, Parameter(help="Of this priority or a higher one.")] = None
    priority_max: Annotated[int | None, Parameter(help="Of this priority or a lower one.")] = None

    @property
    def any(self) -> bool:
        """Whether anything was asked for."""
        return self != Which()

    def filter(self, status: list[Status] | Status | None) -> Filter:
        """Make the filter of it."""
        return Filter(
            status=status or None,
            queue=self.queue,
            task=self.task,
            worker_id=self.worker_id,
            batch_id=self.batch_id,
            tag=self.tag,
            q=self.q,
            priority_min=self.priority_min,
            priority_max=self.priority_max,
        )


def actor(by: str | None) -> str:
    """Say who acts, for the log."""
    if by is not None:
        return by
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a number that has no name
        return str(os.getuid())
