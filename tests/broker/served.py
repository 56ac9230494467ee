"""A server process whose clock the tests move: the routes under ``/test`` exist here and nowhere in dibs."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from dibs import App, FakeClock
from dibs.server import asgi, keys
from dibs.server.auth import is_loopback
from dibs.server.serve import Server, _address, _listen

NEVER = 90 * 365 * 86_400
"""Seconds. The suite says itself when leases that ran out are looked after."""


class Served:
    """An ASGI app: that of the test which is running, and a few routes to begin the next one and to move its clock."""

    def __init__(self) -> None:
        self.api: Any = None
        self._app: App | None = None
        self._clock = FakeClock()
        self._helpers: list[App] = []
        self._tending: list[asyncio.Task[None]] = []
        self._url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/test/"):
            await self.api(scope, receive, send)
            return
        assert is_loopback(scope["client"][0])
        asked = json.loads((await receive())["body"])
        answer = await getattr(self, scope["path"].removeprefix("/test/"))(**asked)
        body = json.dumps(answer).encode()
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def begin(self, url: str) -> str:
        """Serve another store, with a clock that is set back; answer a key."""
        await self.end()
        self._url, self._clock = url, FakeClock()
        app = self._app = App(url, clock=self._clock, reap_every=NEVER, prune_every=NEVER)
        self.api = asgi(app)
        made = await keys.create(app.runtime.broker(), self._clock, name="suite", scopes=["admin"], rate=None)
        return made.text

    async def begin_openly(self, url: str) -> None:
        """Serve another store, with the real clock and without keys, and look after it, as ``dibs serve`` would."""
        await self.end()
        app = self._app = App(url)
        self.api = asgi(app, auth=False)
        app.runtime.maintain()

    async def advance(self, us: int) -> int:
        self._clock.advance(us / 1_000_000)
        return self._clock.now()

    async def maintain(self, number: int) -> None:
        """Look after the store from now on, as a server does that is not told otherwise."""
        assert self._app is not None
        for _ in range(number):
            helper = App(self._url, clock=self._clock)
            helper.runtime._opened.meter = self._app.runtime._opened.meter  # a server tells of its own claims
            self._helpers.append(helper)
            self._tending.append(asyncio.create_task(helper.runtime.broker().maintain()))

    async def rest(self) -> None:
        """Look after it no more."""
        for task in self._tending:
            task.cancel()
        await asyncio.gather(*self._tending, return_exceptions=True)
        for helper in self._helpers:
            await helper.close()
        self._tending, self._helpers = [], []

    async def end(self) -> None:
        await self.rest()
        if self._app is not None:
            self.api.stop()
            await self._app.close()
            self._app = None

    def stop(self) -> None:
        if self.api is not None:
            self.api.stop()


async def main() -> None:
    served = Served()
    with _listen("127.0.0.1", 0) as listening:
        server = Server(served, lambda: print(f"serving on {_address(listening)}", flush=True))  # type: ignore[arg-type]
        await server.run_on(listening)
    await served.end()


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(0)
