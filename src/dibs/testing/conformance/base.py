"""What every part of the suite has in common: a store and a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

import pytest
import pytest_asyncio

from dibs.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from dibs.store import Store

Test = TypeVar("Test", bound="Callable[..., object]")
_REACHES = ("part", "queue", "store")


def ordered(reach: str) -> Callable[[Test], Test]:
    """Mark a test of an order that reaches as far: over one ``queue``, or over all queues of a ``store``."""

    def mark(test: Test) -> Test:
        test.order_reaches = reach  # type: ignore[attr-defined]
        return test

    return mark


class Suite:
    """Give ``subject``, a store that is not open yet and is empty; the tests need nothing else."""

    pytestmark: ClassVar = [pytest.mark.asyncio]
    order_reaches: ClassVar[str] = "store"
    """How far jobs have one order and one clock: over the whole ``store``; over one ``queue``, where those of several
    are in several places; or over a ``part`` of one. Tests of an order that reaches further are left out."""

    @pytest.fixture(autouse=True)
    def _leave_out(self, request: pytest.FixtureRequest) -> None:
        reach = getattr(request.function, "order_reaches", "part")
        if _REACHES.index(reach) > _REACHES.index(self.order_reaches):
            pytest.skip(f"the jobs of a {reach} have no one order here")

    def listed(self, ids: Iterable[str]) -> list[str]:
        """List ids as they came, unless they come in no order."""
        return list(ids) if self.order_reaches != "part" else sorted(ids)

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
