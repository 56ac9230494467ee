"""The broker suite, over the Redis store on a cluster."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Broker
from dibs.clock import FakeClock
from dibs.domain.settings import Config
from dibs.stores.redis import ClusterStore
from dibs.testing.conformance.broker import BrokerSuite
from tests.servers.databases import empty_cluster


class TestClusterBroker(BrokerSuite):
    @pytest.fixture
    def url(self) -> str:
        return empty_cluster()

    @pytest_asyncio.fixture
    async def broker(self, url: str, clock: FakeClock, config: Config) -> AsyncIterator[Broker]:
        store = ClusterStore(url, clock)
        yield LocalBroker(store, clock, config)
        await store.close()
