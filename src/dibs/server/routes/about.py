"""About the server itself: is it alive, is its store, what does it offer, how is it doing."""

from __future__ import annotations

import asyncio

from dibs.domain.errors import StoreUnavailable
from dibs.server import metrics
from dibs.server.page import HEADERS, PAGE
from dibs.server.route import HTML, Call, Reply, Route
from dibs.wire.answered import Health

READY_SECONDS = 5.0
"""How long the store may take to answer before it is called unreachable."""


async def health(call: Call) -> Reply:
    """Say that the process is alive."""
    del call
    return Reply(Health(status="ok"))


async def ready(call: Call) -> Reply:
    """Say whether the store answers, and the server is not about to stop."""
    if call.state.stopping:
        raise StoreUnavailable("the server is stopping", hint="Another one, or its successor, will answer.")
    try:
        async with asyncio.timeout(READY_SECONDS):
            await call.broker.read("ready")
    except TimeoutError:
        raise StoreUnavailable(f"the store did not answer within {READY_SECONDS:g} s") from None
    return Reply(Health(status="ready"))


async def openapi(call: Call) -> Reply:
    """Describe the calls."""
    return Reply(call.state.openapi)


async def docs(call: Call) -> Reply:
    """Describe them for people."""
    return Reply(call.state.docs, media=HTML, headers=HEADERS)


async def show_metrics(call: Call) -> Reply:
    """Tell Prometheus."""
    call.caller.need_all_queues()
    return Reply(await call.state.metrics.page(call.broker), media=metrics.MEDIA)


async def page(call: Call) -> Reply:
    """Show a page to people."""
    del call
    return Reply(PAGE, media=HTML, headers=HEADERS)


ROUTES = (
    Route("GET", "/health", health, "Say that the process is alive.", answers={200: Health}),
    Route("GET", "/ready", ready, "Say whether the store answers.", answers={200: Health}, refuses=(503,)),
    Route("GET", "/openapi.json", openapi, "Describe these calls.", answers={200: dict}),
    Route("GET", "/docs", docs, "Describe these calls for people.", media=HTML),
    Route("GET", "/metrics", show_metrics, "Numbers for Prometheus.", scope="read", media=metrics.MEDIA),
    Route("GET", "/", page, "A page for people.", media=HTML),
)
