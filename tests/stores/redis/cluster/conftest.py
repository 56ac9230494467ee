"""Stores on the run's cluster, with a clock that the tests move, or the servers' own."""

from collections.abc import AsyncIterator, Callable

import pytest

from dibs.clock import Clock, FakeClock
from dibs.stores.redis import ClusterStore
from tests.servers.databases import empty_cluster


@pytest.fixture
def url() -> str:
    return empty_cluster()


@pytest.fixture
async def open_store(url: str, clock: FakeClock) -> AsyncIterator[Callable[..., ClusterStore]]:
    """Make stores, each as another process would have it; they are closed at the end."""
    opened: list[ClusterStore] = []

    def open_store(options: str = "", clock: Clock = clock) -> ClusterStore:
        opened.append(ClusterStore(f"{url}{options}", clock))
        return opened[-1]

    yield open_store
    for store in opened:
        await store.close()


@pytest.fixture
def store(open_store: Callable[..., ClusterStore]) -> ClusterStore:
    return open_store()


@pytest.fixture
def other(open_store: Callable[..., ClusterStore]) -> ClusterStore:
    return open_store()
