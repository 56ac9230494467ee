"""Who calls, and what they may do."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from dibs.domain.checks import MAX_KEY
from dibs.domain.errors import Forbidden, InvalidRequest, NotFound, Problem, Unauthorized
from dibs.server import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dibs.broker.protocol import Broker
    from dibs.clock import Clock
    from dibs.domain.job import Job

KNOWN_SECONDS = 2.0
"""How long a key is trusted after it was read: a revoked one works no longer than that."""
MOST_KNOWN = 10_000
"""Ids that are remembered, whether or not there is such a key, before all are forgotten."""


class Caller(NamedTuple):
    """Whoever sends a request."""

    id: str
    name: str | None
    scopes: frozenset[str]
    rate: int | None = None
    queues: frozenset[str] | None = None

    def need(self, scope: str) -> None:
        """Refuse a caller without the scope; an admin has them all."""
        if scope not in self.scopes and "admin" not in self.scopes:
            raise Forbidden(
                f"this call needs the scope {scope}", hint=f"Use a key made with `dibs keys create --scope {scope}`."
            )

    def need_all_queues(self) -> None:
        """Refuse a caller who may see some queues only, where the answer is about all of them."""
        if self.queues is not None:
            raise Forbidden("this call is about all queues, and the key is for some only", hint="")

    def actor(self, by: str | None) -> str | None:
        """Say who does it, for the log. An admin is believed; before what others say goes the name of their key."""
        if by is None or "admin" in self.scopes:
            return self.name if by is None else by
        return f"{self.name}: {by}"[:MAX_KEY]

    def sees(self, queue: str) -> bool:
        """Say whether jobs of this queue are the caller's business."""
        return self.queues is None or queue in self.queues

    def own(self, job: Job | None, id: str) -> Job:
        """Return the job if there is one that the caller may see. One of another queue is as good as none."""
        if job is None or not self.sees(job.queue):
            raise NotFound(f"there is no job {id!r}")
        return job

    def allow(self, queues: Iterable[str]) -> None:
        """Refuse a caller who names a queue that its key is not for."""
        if any(not self.sees(queue) for queue in queues):
            raise Forbidden("the key is not for this queue", hint="Name a queue that the key was made for.")

    def claimable(self, asked: Sequence[str] | None) -> Sequence[str] | None:
        """Say from which queues to claim: those asked for, or all that the caller may see."""
        if asked is None:
            return None if self.queues is None else sorted(self.queues)
        self.allow(asked)
        return asked

    def listable(self, asked: str | None) -> str | None:
        """Say which queue to list."""
        if asked is not None:
            self.allow([asked])
        elif self.queues is not None:
            if len(self.queues) > 1:
                raise InvalidRequest([Problem("queue", f"name one of {', '.join(sorted(self.queues))}")])
            return next(iter(self.queues))
        return asked


ANYONE = Caller("", None, frozenset({"admin"}))
"""Whoever reaches a server without keys."""


class Keyring:
    """The keys of a store, each remembered for a moment."""

    def __init__(self, broker: Callable[[], Broker], clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._known: dict[str, tuple[float, keys.Found | None]] = {}

    async def caller(self, headers: Sequence[tuple[bytes, bytes]]) -> Caller:
        """Say who calls, by the key that was sent."""
        parts = keys.split(_given(headers))
        found = None if parts is None else await self._look_up(parts[0])
        if parts is None or found is None or not keys.proves(found.key, parts[1]):
            raise Unauthorized("the API key is not valid, was revoked, or has expired")
        key = found.key
        return Caller(
            found.id,
            key.name,
            frozenset(key.scopes),
            key.rate,
            None if key.queues is None else frozenset(key.queues),
        )

    async def _look_up(self, id: str) -> keys.Found | None:
        now = self._clock.monotonic()
        known = self._known.get(id)
        if known is not None and now - known[0] < KNOWN_SECONDS:
            return known[1]
        found = await keys.look_up(self._broker(), id)
        if len(self._known) >= MOST_KNOWN:  # someone guesses
            self._known.clear()
        self._known[id] = (now, found)
        return found


def _given(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Find the one key in the headers. Two may differ, and then no one knows which was meant."""
    given = [value for name, value in headers if name == b"x-api-key"]
    for name, value in headers:
        if name == b"authorization":
            kind, _, text = value.strip().partition(b" ")
            if kind.lower() != b"bearer":
                raise Unauthorized("the Authorization header is not a Bearer one")
            given.append(text)
    if not given:
        raise Unauthorized("no API key was given")
    if len(given) > 1:
        raise Unauthorized("more than one API key was given", hint="Send one, in X-API-Key.")
    return given[0].strip().decode("latin-1")


def is_loopback(host: str) -> bool:
    """Say whether this names the machine itself, and nothing that others can reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_browser(headers: dict[bytes, bytes]) -> None:
    """Refuse what a web page elsewhere may have made a browser send: without keys, being local is all that protects.

    A foreign Host is a name that was pointed at this machine; a foreign Origin is another site's page.
    """
    if not _is_local(b"//" + headers.get(b"host", b"localhost")):
        raise Forbidden("without keys, only calls to localhost are taken", hint="Start the server with keys.")
    origin = headers.get(b"origin")
    if origin is not None and not _is_local(origin):
        raise Forbidden("this was sent by a page of another site", hint="")


@lru_cache(maxsize=64)
def _is_local(url: bytes) -> bool:
    try:
        return is_loopback(urlsplit(url.decode("latin-1")).hostname or "")
    except ValueError:
        return False
