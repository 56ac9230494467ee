"""The Redis store keeps every promise of a store."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from dibs.clock import FakeClock
from dibs.store import Store
from dibs.stores.redis import RedisStore
from dibs.testing.conformance import SharedStoreSuite, StoreSuite, state_machine
from tests.servers.databases import empty_redis


@pytest.fixture
def url() -> str:
    return empty_redis()


class TestRedisStore(StoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return RedisStore(url, clock)


class TestSharedRedisStore(SharedStoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock, url: str) -> Store:
        return RedisStore(url, clock)

    @pytest.fixture
    def second_subject(self, second_clock: FakeClock, url: str) -> Store:
        return RedisStore(url, second_clock)


@pytest.mark.timeout(600)  # a difference takes a while to be boiled down
def test_state_machine() -> None:
    run_state_machine_as_test(state_machine(lambda clock: RedisStore(empty_redis(), clock)))
