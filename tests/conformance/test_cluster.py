"""The Redis store keeps every promise of a store on a cluster of three masters, too, but for one order over all jobs.

With each queue in one part, and with each in twelve: then an order is a part's, and each master has its own clock.
"""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from dibs.clock import FakeClock
from dibs.store import Store
from dibs.stores.redis import ClusterStore
from dibs.testing.conformance import SharedStoreSuite, StoreSuite, state_machine
from tests.servers.databases import empty_cluster


@pytest.fixture
def url() -> str:
    return empty_cluster()


class TestClusterStore(StoreSuite):
    order_reaches = "queue"

    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return ClusterStore(url, clock)


class TestSharedClusterStore(SharedStoreSuite):
    order_reaches = "queue"

    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return ClusterStore(url, clock)

    @pytest.fixture
    def second_subject(self, second_clock: FakeClock, url: str) -> Store:
        return ClusterStore(url, second_clock)


@pytest.mark.again
class TestSpreadClusterStore(StoreSuite):
    order_reaches = "part"

    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return ClusterStore(f"{url}&partitions=12", clock)


@pytest.mark.again
class TestSharedSpreadClusterStore(SharedStoreSuite):
    order_reaches = "part"

    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return ClusterStore(f"{url}&partitions=12", clock)

    @pytest.fixture
    def second_subject(self, second_clock: FakeClock, url: str) -> Store:
        return ClusterStore(f"{url}&partitions=12", second_clock)


@pytest.mark.timeout(600)  # a difference takes a while to be boiled down
@pytest.mark.parametrize("partitions", [1, 12])
def test_state_machine(partitions: int) -> None:
    def make(clock: FakeClock) -> Store:
        return ClusterStore(f"{empty_cluster()}&partitions={partitions}", clock)

    run_state_machine_as_test(state_machine(make, one_order=False, examples=50))
