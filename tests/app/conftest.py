"""An app on each store, with a clock that moves when it is told to, or with a real one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dibs import App, FakeClock


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


@pytest.fixture
async def live(url: str) -> AsyncIterator[App]:
    """An app whose time passes by itself."""
    async with App(url) as app:
        yield app
