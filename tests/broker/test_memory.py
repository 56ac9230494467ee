"""The broker suite, over the memory store."""

import pytest

from dibs.broker.local import LocalBroker
from dibs.broker.protocol import Broker
from dibs.clock import FakeClock
from dibs.domain.settings import Config
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance.broker import BrokerSuite


class TestMemoryBroker(BrokerSuite):
    @pytest.fixture
    def broker(self, clock: FakeClock, config: Config) -> Broker:
        return LocalBroker(MemoryStore(clock), clock, config)
