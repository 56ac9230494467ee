"""What the routes of one server share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dibs.server.auth import Keyring
from dibs.server.checking import Checker
from dibs.server.cursors import Cursors
from dibs.server.feed import Feed
from dibs.server.limits import Limits
from dibs.server.metrics import Metrics
from dibs.server.processes import LIMITS
from dibs.server.windows import OwnWindows, SharedWindows

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.app import App


class State:
    """The app that is served, who may call it, and what is under way.

    ``shared`` is the folder of what the processes of one server have in common: their counts.
    """

    def __init__(self, app: App, *, auth: bool, check_params: bool = True, shared: Path | None = None) -> None:
        clock = app.runtime.clock
        self.app = app
        self.keyring = Keyring(app.runtime.broker, clock) if auth else None
        self.checker = Checker(app.runtime.broker, clock) if check_params else None
        self.cursors = Cursors(app.runtime.broker, clock)
        self.feed = Feed(app.runtime.broker, clock)
        self.limits = Limits(clock, OwnWindows() if shared is None else SharedWindows(shared / LIMITS))
        self.metrics = Metrics(clock, shared)
        self.polls: set[asyncio.Task[Any]] = set()
        self.stopping = False
        self.openapi = self.docs = b""

    def stop(self) -> None:
        """Let claims that wait for a job end now, so that a server can go down without waiting for them."""
        self.stopping = True
        for poll in list(self.polls):
            poll.cancel()
