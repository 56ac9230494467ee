"""An answer that goes on: until its client goes, the server stops, or it has nothing more to say."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Send

    from dibs.server.limits import Headers
    from dibs.server.route import Reply
    from dibs.server.state import State

logger = logging.getLogger("dibs")

SLOWEST = 30.0
"""Seconds that a client may take to make room for the next piece."""


async def respond(state: State, reply: Reply, extra: Headers, receive: Receive, send: Send) -> None:
    """Send an answer bit by bit. A stop cancels it as it does the claims that wait."""
    assert reply.stream is not None  # noqa: S101  # for the type checker
    await send({"type": "http.response.start", "status": reply.status, "headers": [*reply.head, *extra]})
    work = asyncio.ensure_future(_send_all(reply.stream, send))
    watch = asyncio.ensure_future(_watch(receive, work))
    state.polls.add(work)
    if state.stopping:
        work.cancel()
    try:
        await asyncio.wait({work})
    finally:
        state.polls.discard(work)
        work.cancel()
        watch.cancel()
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.warning("a stream of events ended early: %r", error)
        if isinstance(error, TimeoutError):
            return  # it would not take the end either; an answer without one has its connection closed
    await send({"type": "http.response.body", "body": b""})


async def _send_all(stream: AsyncIterator[bytes], send: Send) -> None:
    try:
        async for piece in stream:
            async with asyncio.timeout(SLOWEST):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        with suppress(AttributeError):  # not every iterator has an end of its own
            await stream.aclose()  # type: ignore[attr-defined]


async def _watch(receive: Receive, work: asyncio.Future[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()
