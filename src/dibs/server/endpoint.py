"""One request, from its first byte to its answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError, StoreUnavailable, Unauthorized
from dibs.server import streaming
from dibs.server.auth import ANYONE, check_browser
from dibs.server.journal import Exchange
from dibs.server.problems import NoRoute, Unexpected, WrongMethod, problem_of
from dibs.server.reading import Gone, fit, parse, read_body, read_query
from dibs.server.route import Call, Reply, encoder
from dibs.wire.refused import MEDIA

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from dibs.server.auth import Caller
    from dibs.server.limits import Headers
    from dibs.server.route import Route
    from dibs.server.state import State

logger = logging.getLogger("dibs")

HUNG_UP = 499
"""What is counted for a client that did not wait for its answer."""


class Endpoint:
    """Serves one route, as an ASGI app."""

    def __init__(self, state: State, route: Route) -> None:
        self._state = state
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        route, state = self._route, self._state
        exchange = Exchange(scope, state.app.runtime.clock)
        try:
            reply = await self._reply(scope, receive, exchange)
        except Gone:
            state.metrics.answered(route.method, route.path, HUNG_UP)
            exchange.note(route.path, HUNG_UP)
            return
        except DibsError as error:
            reply = refusal(error, route)
        except Exception:
            logger.exception("%s %s failed, request %s", route.method, route.path, exchange.id)
            reply = refusal(Unexpected())
        state.metrics.answered(route.method, route.path, reply.status, exchange.seconds)
        if reply.stream is not None and scope["method"] != "HEAD":
            exchange.note(route.path, reply.status)  # its answer may go on for days
            await streaming.respond(state, reply, exchange.extra, receive, send)
            return
        # A stream that is asked for its head is told no more than that.
        await respond(send, reply if reply.stream is None else reply._replace(body=b""), exchange.extra)
        exchange.note(route.path, reply.status)  # what is written down as answered was answered

    async def _reply(self, scope: Scope, receive: Receive, exchange: Exchange) -> Reply:
        route, state = self._route, self._state
        headers = dict(reversed(scope["headers"]))
        caller = ANYONE
        if route.scope is not None:
            caller = await self._admit(scope, headers, exchange)
        query = None if route.query is None else read_query(scope["query_string"], route.query)
        body = None
        if route.bodies:
            data = await read_body(receive, headers)
            body = fit({} if not data and route.may_be_empty else parse(data, headers), route.bodies)
        return await route.handler(Call(state, caller, scope["path_params"], body, query, headers, receive))

    async def _admit(self, scope: Scope, headers: dict[bytes, bytes], exchange: Exchange) -> Caller:
        """Find out who calls and whether they may, before anything else of the request is read."""
        keyring = self._state.keyring
        if keyring is None:
            check_browser(headers)
            return ANYONE
        caller = await keyring.caller(scope["headers"])
        exchange.key = caller.id
        spent = self._state.limits.spend(caller)
        exchange.extra += spent.headers
        if spent.refusal is not None:
            raise spent.refusal
        caller.need(self._route.scope or "admin")
        return caller


def refusal(error: DibsError, route: Route | None = None) -> Reply:
    """Turn an error into an answer."""
    problem = problem_of(error) if route is None else problem_of(error, route.names)
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if isinstance(error, Unauthorized):
        headers = ((b"www-authenticate", b'Bearer realm="dibs"'),)
    elif isinstance(error, StoreUnavailable):
        headers = ((b"retry-after", b"1"),)
    return Reply(encoder.encode(problem), problem.status, MEDIA, headers)


async def respond(send: Send, reply: Reply, extra: Headers) -> None:
    """Send an answer."""
    body = reply.encoded()
    headers = [(b"content-length", b"%d" % len(body)), *reply.head, *extra]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Refuse:
    """Answers what no route is for, as an ASGI app."""

    def __init__(self, state: State, methods: dict[str, list[str]]) -> None:
        self._state = state
        self._methods = methods

    async def nothing_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to an address that there is not."""
        del receive
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        exchange = Exchange(scope, self._state.app.runtime.clock)
        self._state.metrics.answered("other", "other", 404)
        await respond(send, refusal(NoRoute()), exchange.extra)
        exchange.note("other", 404)

    async def wrong_method(self, path: str, scope: Scope, send: Send) -> None:
        """Answer a request with a method that its address does not take."""
        exchange = Exchange(scope, self._state.app.runtime.clock)
        allowed = ", ".join(sorted(self._methods[path]))
        error = WrongMethod(f"{path} takes {allowed}, not {scope['method'][:20]}")
        reply = refusal(error)._replace(headers=((b"allow", allowed.encode()),))
        self._state.metrics.answered("other", path, reply.status)
        await respond(send, reply, exchange.extra)
        exchange.note(path, reply.status)
