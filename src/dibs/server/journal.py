"""What is written down of each request: a line of JSON, with the id that its answer carries too, and never a secret."""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dibs.domain.retry import SECOND
from dibs.server.problems import printable
from dibs.server.route import encoder

if TYPE_CHECKING:
    from starlette.types import Scope

    from dibs.clock import Clock
    from dibs.server.limits import Headers

HEADER = b"x-request-id"

requests = logging.getLogger("dibs.requests")

_ID = re.compile(rb"[A-Za-z0-9_.:-]{1,128}")
_KEY = re.compile(r"(dibs_[a-z0-9]+)_[A-Za-z0-9_-]+")
_LONG = 500


class Exchange:
    """One request on its way to its answer."""

    __slots__ = ("_clock", "_scope", "began", "extra", "id", "key")

    def __init__(self, scope: Scope, clock: Clock) -> None:
        self._scope, self._clock = scope, clock
        self.began = clock.monotonic()
        self.id = _given(scope) or clock.new_id()
        self.key: str | None = None  # the id of the caller's key, once it is known
        self.extra: Headers = [(HEADER, self.id.encode())]  # headers of the answer, whatever it is

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return self._clock.monotonic() - self.began

    def note(self, route: str, status: int) -> None:
        """Write it down, if anyone wants to know."""
        if requests.isEnabledFor(logging.INFO):
            requests.info("%s", encoder.encode(self._line(route, status)).decode())

    def _line(self, route: str, status: int) -> dict[str, Any]:
        scope = self._scope
        client = scope.get("client")
        return {
            "at": datetime.fromtimestamp(self._clock.now() / SECOND, UTC).isoformat(timespec="milliseconds"),
            "request_id": self.id,
            "method": scope["method"][:_LONG],
            "path": _masked(scope["path"])[:_LONG],
            "route": route,
            "status": status,
            "ms": round(self.seconds * 1000, 3),
            "key": self.key,
            "client": client[0] if client else None,
        }


def _given(scope: Scope) -> str | None:
    """Take the caller's id for the request, if it is one that can be written anywhere, and no key."""
    for name, value in scope["headers"]:
        if name == HEADER:
            return _masked(value.decode("ascii")) if _ID.fullmatch(value) else None
    return None


def _masked(text: str) -> str:
    """Leave out the secret of a key that was put where it does not belong."""
    return _KEY.sub(r"\1_", printable(text))


def write_requests() -> None:
    """Write every request to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    requests.addHandler(handler)
    requests.setLevel(logging.INFO)
    requests.propagate = False
