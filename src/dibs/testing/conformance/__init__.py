"""Suites that anyone can run against a store of their own; they need pytest, pytest-asyncio and hypothesis.

class TestMyStore(StoreSuite):
    @pytest.fixture
    def subject(self, clock: FakeClock) -> Store:
        return MyStore(clock)

def test_my_store_is_like_the_memory_store() -> None:
    run_state_machine_as_test(state_machine(MyStore))
"""

from pkgutil import iter_modules

import pytest

# Before the suites are imported, so that a failing assert explains itself.
pytest.register_assert_rewrite(*(module.name for module in iter_modules(__path__, f"{__name__}.")))

from dibs.testing.conformance.shared import SharedStoreSuite  # noqa: E402 - see above
from dibs.testing.conformance.statemachine import state_machine  # noqa: E402 - see above
from dibs.testing.conformance.store import StoreSuite  # noqa: E402 - see above

__all__ = ["SharedStoreSuite", "StoreSuite", "state_machine"]
