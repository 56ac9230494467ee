"""The broker suite over HTTP: a real server process, on SQLite."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dibs.broker.protocol import Broker
from dibs.clock import FakeClock
from dibs.domain.settings import Config
from dibs.testing.conformance.broker import BrokerSuite
from tests.broker.serving import Process, ServedBroker, ServedClock


class TestHttpBroker(BrokerSuite):
    @pytest.fixture
    def clock(self, process: Process) -> FakeClock:
        return ServedClock(process)

    @pytest_asyncio.fixture
    async def broker(self, tmp_path: Path, process: Process, clock: FakeClock, config: Config) -> AsyncIterator[Broker]:
        broker = ServedBroker(process, f"sqlite:///{tmp_path / 'dibs.db'}", clock, config)
        yield broker
        await broker.remote.close()
        process.tell("end")
