from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dibs.clock import FakeClock
from dibs.stores.sqlite import SqliteStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest_asyncio.fixture
async def store(path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, clock)
    await store.open()
    yield store
    await store.close()
