"""What every part of the suite has in common: a broker, a clock that can be moved, and the settings to use."""

from __future__ import annotations

from typing import ClassVar

import pytest

from dibs.clock import FakeClock
from dibs.domain.job import Retention
from dibs.domain.retry import Backoff
from dibs.domain.settings import Config

TUNED = "tuned/queue"
"""A queue with defaults of its own."""

APP_TIMEOUT = 3600
"""Seconds; the only default that the app of the suite sets for all queues."""


class Suite:
    """Give a fixture ``broker``, over an empty store on ``clock`` and with the settings of ``config``.

    It may close what it opened when the test is over. Nothing else is needed.
    """

    pytestmark: ClassVar = [pytest.mark.asyncio]

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def config(self) -> Config:
        return Config.of(
            timeout=APP_TIMEOUT,
            queues={
                TUNED: {
                    "priority": "high",
                    "max_attempts": 5,
                    "retry": Backoff(base=2, cap=8),
                    "timeout": 60,
                    "lease": 7,
                    "retention": Retention(completed=100, cancelled=200, failed=300, keyed=400),
                }
            },
        )
