"""The memory store keeps every promise of a store."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from dibs.clock import FakeClock
from dibs.store import Store
from dibs.stores.memory import MemoryStore
from dibs.testing.conformance import StoreSuite, state_machine


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock) -> Store:
        return MemoryStore(clock)


@pytest.mark.timeout(600)  # a difference takes a while to be boiled down
def test_state_machine() -> None:
    run_state_machine_as_test(state_machine(MemoryStore))
