"""A served app in this process, with a clock that moves when it is told to; and server processes of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from dibs import App, FakeClock
from dibs.server import asgi, keys
from tests.server.client import BASE, Client
from tests.server.process import Serving

Make = Callable[..., Awaitable[str]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
async def app(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> AsyncIterator[App]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"
    async with App(url, clock=clock, reap_every=3600) as app:
        yield app


@pytest.fixture
async def http(app: App) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(asgi(app)), base_url=BASE) as http:
        yield http


@pytest.fixture
def make_key(app: App) -> Make:
    async def make(*scopes: str, rate: int | None = None, **wishes: Any) -> str:
        runtime = app.runtime
        made = await keys.create(runtime.broker(), runtime.clock, name="test", scopes=scopes, rate=rate, **wishes)
        return made.text

    return make


@pytest.fixture
async def client(http: httpx2.AsyncClient, make_key: Make) -> Client:
    """A client that may do everything."""
    return Client(http, await make_key("admin"))


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """A server process on a SQLite file, without keys."""
    with Serving(tmp_path, "--no-auth") as serving:
        yield serving
