"""The broker suite over HTTP: a real server process, on SQLite; and by hand on PostgreSQL and Redis."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dibs.broker.protocol import Broker
from dibs.clock import FakeClock
from dibs.domain.settings import Config
from dibs.testing.conformance.broker import BrokerSuite
from tests.broker.serving import Process, ServedBroker, ServedClock
from tests.servers.databases import empty_postgres, empty_redis


class TestHttpBroker(BrokerSuite):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'dibs.db'}"

    @pytest.fixture
    def clock(self, process: Process) -> FakeClock:
        return ServedClock(process)

    @pytest_asyncio.fixture
    async def broker(self, url: str, process: Process, clock: FakeClock, config: Config) -> AsyncIterator[Broker]:
        broker = ServedBroker(process, url, clock, config)
        yield broker
        await broker.remote.close()
        process.tell("end")


@pytest.mark.long
class TestHttpBrokerOnPostgres(TestHttpBroker):
    @pytest.fixture
    def url(self) -> str:
        return empty_postgres()


@pytest.mark.long
class TestHttpBrokerOnRedis(TestHttpBroker):
    @pytest.fixture
    def url(self) -> str:
        return empty_redis()
