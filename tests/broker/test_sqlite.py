"""The broker suite, over the SQLite store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Broker
from dibs.clock import FakeClock
from dibs.domain.settings import Config
from dibs.stores.sqlite import SqliteStore
from dibs.testing.conformance.broker import BrokerSuite


class TestSqliteBroker(BrokerSuite):
    @pytest_asyncio.fixture
    async def broker(self, tmp_path: Path, clock: FakeClock, config: Config) -> AsyncIterator[Broker]:
        store = SqliteStore(tmp_path / "dibs.db", clock)
        yield LocalBroker(store, clock, config)
        await store.close()
