"""The broker suite, over the MySQL store, on MariaDB."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Broker
from dibs.clock import FakeClock
from dibs.domain.settings import Config
from dibs.stores.mysql import MysqlStore
from dibs.testing.conformance.broker import BrokerSuite
from tests.servers.databases import empty_mysql


class TestMysqlBroker(BrokerSuite):
    @pytest.fixture
    def url(self) -> str:
        return empty_mysql()

    @pytest_asyncio.fixture
    async def broker(self, url: str, clock: FakeClock, config: Config) -> AsyncIterator[Broker]:
        store = MysqlStore(url, clock)
        yield LocalBroker(store, clock, config)
        await store.close()
