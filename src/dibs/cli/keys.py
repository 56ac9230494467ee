"""``dibs keys``: make, list and revoke the keys of a server."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
import msgspec
from cyclopts import Parameter

from dibs.app import App
from dibs.cli.load import existing, place_of
from dibs.domain.errors import InvalidRequest, NotFound, Problem
from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from dibs.server.keys import Key

Store = Annotated[str | None, Parameter(help="The store's URL.")]
Json = Annotated[bool, Parameter(help="Print as JSON.", negative=())]

keys = cyclopts.App(name="keys", help="Make, list and revoke API keys.")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_RATE = re.compile(r"([0-9]{1,8})(?:/min)?")
_SPAN = re.compile(r"([0-9]{1,8})([smhd])")


@keys.command
def create(
    *,
    name: Annotated[str, Parameter(help="What the key is for; the log shows it.")],
    scope: Annotated[list[str], Parameter(help="produce, work, read or admin; may be repeated.", negative=())],
    rate: Annotated[str, Parameter(help="Requests a minute, as 100/min, or unlimited.")] = "100/min",
    queue: Annotated[list[str] | None, Parameter(help="Only this queue; may be repeated.", negative=())] = None,
    expires: Annotated[str | None, Parameter(help="In 90d, 12h, 30m, or at 2030-01-31T00:00:00Z.")] = None,
    store: Store = None,
    json: Json = False,
) -> int:
    """Make a key, and print it this once: only a hash of it is kept."""
    from dibs.server import keys as ring

    app = existing(store)
    limit, seconds = _rate(rate), _seconds(expires, app)

    async def work() -> ring.Made:
        return await ring.create(
            app.runtime.broker(),
            app.runtime.clock,
            name=name,
            scopes=scope,
            rate=limit,
            queues=queue or None,
            expires=seconds,
        )

    made = _run(app, work())
    if json:
        print(_encode({**_shown(made.id, made.key, made.expires_us), "key": made.text}))
    else:
        print(made.text)
        where = place_of(app) or app.url
        print(f"This is shown once; only a hash of it is kept, in {where}.", file=sys.stderr)
    return 0


@keys.command(name="list")
def list_(*, store: Store = None, json: Json = False) -> int:
    """List the keys, without their secrets."""
    from dibs.server import keys as ring

    app = existing(store)

    async def work() -> list[ring.Found]:
        return await ring.everything(app.runtime.broker())

    found = [_shown(one.id, one.key, one.expires_us) for one in _run(app, work())]
    if json:
        print(_encode({"keys": found}))
        return 0
    for one in found:
        queues = ",".join(one["queues"]) if one["queues"] else "all queues"
        until = f", until {one['expires_at']}" if one["expires_at"] else ""
        print(f"{one['id']:14} {one['name']}: {','.join(one['scopes'])}; {one['rate']}; {queues}{until}")
    if not found:
        print("there are no keys; `dibs serve` makes the first, or `dibs keys create`")
    return 0


@keys.command
def revoke(id: str, *, store: Store = None) -> int:
    """Revoke a key by its id, the part between the two underscores. Servers forget it within seconds."""
    from dibs.server import keys as ring

    app = existing(store)

    async def work() -> bool:
        return await ring.revoke(app.runtime.broker(), id)

    if not _run(app, work()):
        raise NotFound(f"there is no key {id!r}", hint="`dibs keys list` shows them.")
    print(f"revoked {id}")
    return 0


def _run(app: App, work: Any) -> Any:
    try:
        return app.runtime.run(work)
    finally:
        app.runtime.close_and_wait()


def _rate(text: str) -> int | None:
    if text == "unlimited":
        return None
    match = _RATE.fullmatch(text)
    if match is None:
        raise InvalidRequest([Problem("rate", "must be a number a minute, such as 100/min, or unlimited")])
    return int(match[1])


def _seconds(text: str | None, app: App) -> float | None:
    if text is None:
        return None
    if span := _SPAN.fullmatch(text):
        return int(span[1]) * _UNITS[span[2]]
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest([Problem("expires", "must be a time ahead, such as 90d or 2030-01-31")]) from None
    end = end if end.tzinfo is not None else end.replace(tzinfo=UTC)
    return end.timestamp() - app.runtime.clock.now() / SECOND


def _shown(id: str, key: Key, expires_us: int | None) -> dict[str, Any]:
    return {
        "id": id,
        "name": key.name,
        "scopes": key.scopes,
        "rate": "unlimited" if key.rate is None else f"{key.rate}/min",
        "queues": key.queues,
        "expires_at": None if expires_us is None else datetime.fromtimestamp(expires_us // SECOND, UTC),
    }


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()
