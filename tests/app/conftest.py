"""An app on each store, with a clock that moves when it is told to, or with a real one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dibs import App, FakeClock
from tests.server.process import Serving


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def app(url: str, clock: FakeClock) -> AsyncIterator[App]:
    async with App(url, clock=clock) as app:
        yield app


@pytest.fixture(params=["memory", "sqlite", "served"])
def live_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "served":
        with Serving(tmp_path, "--no-auth") as serving:
            yield serving.url
    else:
        yield "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
async def live(live_url: str) -> AsyncIterator[App]:
    """An app whose time passes by itself: on a store, or over a server."""
    async with App(live_url) as app:
        yield app
