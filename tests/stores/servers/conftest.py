"""A store on an empty database of each kind of server, with a clock that the tests move; and a bare connection."""

from collections.abc import AsyncIterator

import pytest

from dibs.clock import Clock, FakeClock
from tests.stores.servers.kinds import KINDS, Kind, Own, ServerStore


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def url(kind: Kind) -> str:
    return kind.empty()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(kind: Kind, url: str, clock: FakeClock) -> AsyncIterator[ServerStore]:
    store = kind.store(url, clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def real(kind: Kind, url: str) -> AsyncIterator[ServerStore]:
    """One that goes by the server's clock."""
    store = kind.store(url, Clock())
    yield store
    await store.close()


@pytest.fixture
async def own(kind: Kind, url: str) -> AsyncIterator[Own]:
    own = await kind.connected(url)
    yield own
    await own.close()
