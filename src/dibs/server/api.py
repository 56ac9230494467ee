"""The ASGI app: the table of routes, served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route as Place
from starlette.routing import Router

from dibs.server.endpoint import Endpoint, Refuse
from dibs.server.openapi import document
from dibs.server.page import docs
from dibs.server.route import encoder
from dibs.server.routes import ROUTES
from dibs.server.state import State

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from dibs.app import App
    from dibs.server.route import Route


class Api(Router):
    """dibs over HTTP; ``stop`` ends the claims that wait, before the server that runs it goes down."""

    def __init__(self, state: State) -> None:
        methods: dict[str, list[str]] = {}
        for route in ROUTES:
            methods.setdefault(route.path, []).append(route.method)
        refuse = Refuse(state, methods)
        super().__init__(
            [_Place(route, state, refuse) for route in ROUTES],
            redirect_slashes=False,
            default=refuse.nothing_here,
        )
        self.state = state

    def stop(self) -> None:
        """Let claims that wait for a job end now."""
        self.state.stop()


class _Place(Place):
    """Where a route is found; refuses other methods in our own words."""

    def __init__(self, route: Route, state: State, refuse: Refuse) -> None:
        super().__init__(route.path, Endpoint(state, route), methods=[route.method])
        self._refuse = refuse

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, or refuse the method."""
        if self.methods is not None and scope["method"] not in self.methods:
            await self._refuse.wrong_method(self.path, scope, send)
        else:
            await self.app(scope, receive, send)


def make(app: App, *, auth: bool, check_params: bool = True, shared: Path | None = None) -> Api:
    """Make the ASGI app; ``shared``: it is one of several processes, whose counts are in this folder."""
    state = State(app, auth=auth, check_params=check_params, shared=shared)
    described = document(ROUTES)
    state.openapi, state.docs = encoder.encode(described), docs(described)
    return Api(state)
