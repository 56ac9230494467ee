"""GET /api/events: what changes, as it changes. Hints, derived from the store: each at least once, in order.

Nothing is remembered for those who come back. A stream of queues names the state that it has told, and whoever has
told it last gets the whole of it again if it is another by now; a stream of one job names the last event of its log.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

from dibs.domain.errors import NotFound, Problem, RateLimited
from dibs.domain.job import EventName
from dibs.server.feed import LOOK_EVERY
from dibs.server.problems import Misfit
from dibs.server.route import EVENTS, Call, Reply, Route, encoder
from dibs.wire.asked import EventQuery
from dibs.wire.show import log_entry, queue_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dibs.domain.job import Event

SILENCE = 15.0
"""Seconds without an event after which a sign of life is sent."""
LONGEST = 300.0
"""Seconds after which a stream ends, and its client comes back: with a key that may have been revoked meanwhile."""
MOST = 100
"""Streams of one server."""

_BEGIN = b"retry: 2000\n\n"
_ALIVE = b": alive\n\n"


async def events(call: Call) -> Reply:
    """Follow the queues, or one job."""
    asked: EventQuery = call.query
    last = call.headers.get(b"last-event-id", b"").decode("latin-1").strip()
    if call.state.feed.streams >= MOST:
        raise RateLimited(f"this server has {MOST} event streams open", hint="Close one, or ask now and then instead.")
    if asked.id is None:
        return Reply(_timed(call, _queues(call, last)), media=EVENTS)
    if call.caller.queues is not None:
        call.caller.own(await call.broker.get(asked.id), asked.id)
    if last and not re.fullmatch("[0-9]{1,18}", last):
        raise Misfit([Problem("Last-Event-ID", "is not one that an event of a job came with")])
    log = await call.broker.log(asked.id)
    if not log:
        raise NotFound(f"there is no job {asked.id!r}")
    return Reply(_timed(call, _log(call, asked.id, int(last or 0), log)), media=EVENTS)


async def _timed(call: Call, told: AsyncIterator[bytes | None]) -> AsyncIterator[bytes]:
    """Send what is told, and a sign of life now and then, until it is time to come back."""
    clock, feed = call.state.app.runtime.clock, call.state.feed
    feed.streams += 1
    try:
        yield _BEGIN
        began = said = clock.monotonic()
        async for news in told:
            now = clock.monotonic()
            if news is not None or now - said >= SILENCE:
                said = now
                yield news or _ALIVE
            if now - began >= LONGEST:
                return
            if news is None:
                await clock.sleep(LOOK_EVERY)
    finally:
        feed.streams -= 1


async def _queues(call: Call, last: str) -> AsyncIterator[bytes | None]:
    """Tell of each state of the queues: whole at first, unless the client knows it; then only what is new in it."""
    known: dict[str, bytes] | None = None
    while True:
        found = [queue_of(info) for info in await call.state.feed.queues() if call.caller.sees(info.queue)]
        now = {queue.queue: encoder.encode(queue) for queue in found}
        name = sha256(b"\0".join(now.values())).hexdigest()[:32]
        if name != last:
            whole = known is None
            data = encoder.encode(
                {
                    "whole": whole,
                    "queues": [queue for queue in found if known is None or known.get(queue.queue) != now[queue.queue]],
                    "gone": [] if known is None else sorted(set(known) - set(now)),
                }
            )
            yield _event(name, "queues", data)
        known, last = now, name
        yield None


async def _log(call: Call, id: str, last: int, log: list[Event]) -> AsyncIterator[bytes | None]:
    """Tell of each event in a job's log, until the job is gone."""
    while log:
        for event in log:
            if event.seq > last:
                last = event.seq
                yield _event(str(event.seq), event.event.value, encoder.encode(log_entry(event)))
        if log[-1].event is EventName.PRUNED:
            return
        yield None
        log = await call.broker.log(id)


def _event(id: str, name: str, data: bytes) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (id.encode(), name.encode(), data)


ROUTES = (
    Route(
        "GET",
        "/api/events",
        events,
        "Follow the queues, or one job, as server-sent events; resumes by Last-Event-ID.",
        scope="read",
        query=EventQuery,
        media=EVENTS,
        refuses=(404,),
        headers={"Last-Event-ID": "The id of the last event that was seen."},
    ),
)
