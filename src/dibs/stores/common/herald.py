"""Hints for other processes: the first at once, what follows within a moment together. Stores say how they travel."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.stores.common.waiting import Name

_SECONDS = 0.02  # between two hints of one process
_LONGEST = 7000  # bytes of a hint; PostgreSQL takes up to 8000
_ANY = "*"


class Herald:
    """Tells other processes, at most so often: the first at once, what follows within a moment together."""

    def __init__(self) -> None:
        self.id = uuid4().hex
        self._lock = threading.Lock()
        self._last = 0.0
        self._gathered: set[Name] = set()
        self._any = False
        self._scheduled = False

    def pick(self, news: Iterable[Name] | None) -> tuple[str | None, float | None]:
        """Give what is to be sent now; or else in how many seconds to ask for the rest, if no one does yet.

        Real time: other processes are waiting, whose time no fake clock moves.
        """
        with self._lock:
            if news is None:
                self._any = True
            else:
                self._gathered.update(news)
            left = self._last + _SECONDS - time.monotonic()
            if left <= 0:
                return self._take(), None
            if self._scheduled:
                return None, None
            self._scheduled = True
            return None, left

    def now(self, news: Iterable[Name] | None) -> str | None:
        """Give what is to be sent along with something that is about to be done; none if that is to be told after it.

        What is told after it must be gathered after it: told before, it would be looked for in vain.
        """
        with self._lock:
            if time.monotonic() < self._last + _SECONDS:
                return None
            if news is None:
                self._any = True
            else:
                self._gathered.update(news)
            return self._take()

    def rest(self) -> str | None:
        """Give what has gathered since."""
        with self._lock:
            self._scheduled = False
            return self._take() if self._gathered or self._any else None

    def _take(self) -> str:
        self._last = time.monotonic()
        payload = self.about(None if self._any else self._gathered, self.id)
        self._gathered, self._any = set(), False
        return payload

    def about(self, news: Iterable[Name] | None, sender: str = "") -> str:
        """Put news into words; none: it may concern anyone. Without a sender they are news to its own process too."""
        names: Any = _ANY if news is None else sorted(news)
        payload = msgspec.json.encode([sender, names])
        return (payload if len(payload) <= _LONGEST else msgspec.json.encode([sender, _ANY])).decode()

    def read(self, payload: str) -> tuple[bool, list[Name] | None]:
        """Say whether a hint is from elsewhere, and what it is about."""
        try:
            sender, names = msgspec.json.decode(payload)
            return sender != self.id, None if names == _ANY else [(queue, task) for queue, task in names]
        except (msgspec.DecodeError, ValueError, TypeError):  # from whomever; it may mean anything
            return True, None
