"""``use``: an app that works in memory, by a clock that a test moves."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dibs.clock import FakeClock
from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.app import App


@contextmanager
def use(app: App, *, at: datetime | None = None, seed: int = 0) -> Iterator[FakeClock]:
    """Put memory and a fake clock in an app's place for as long as the block; nothing of it is left afterwards.

    The time stands still at ``at``, or now, until ``clock.advance(seconds)`` moves it. ``seed`` is that of all chance.
    """
    start = datetime.now(UTC) if at is None else at
    clock = FakeClock(seed, round(start.timestamp() * SECOND))
    with app.runtime.replaced("memory://", clock):
        yield clock
