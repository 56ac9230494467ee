"""What every part of the suite has in common: a store and a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
import pytest_asyncio

from dibs.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dibs.store import Store


class Suite:
    """Give ``subject``, a store that is not open yet and is empty; the tests need nothing else."""

    pytestmark: ClassVar = [pytest.mark.asyncio]

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def subject(self, clock: FakeClock) -> Store:
        raise NotImplementedError(f"{type(self).__name__} needs a fixture `subject` that returns a store on {clock}")

    @pytest_asyncio.fixture
    async def store(self, subject: Store) -> AsyncIterator[Store]:
        await subject.open()
        yield subject
        await subject.close()
