"""How long one request of a claim that waits lasts: never as long as a proxy allows, and never the same."""

from __future__ import annotations

import pytest

from dibs.broker.http import HttpBroker, Remote
from dibs.broker.http.broker import POLL
from dibs.broker.http.remote import Request
from dibs.broker.protocol import Ask
from dibs.clock import FakeClock
from dibs.domain.errors import NothingPending
from dibs.domain.job import Job
from dibs.domain.settings import Config

WAIT = 20 * POLL


class Asking(HttpBroker):
    """One to whom nothing is ever handed out, and who notes how long it was asked to wait."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Remote("http://localhost:1", None, clock), clock, Config.of())
        self._fake = clock
        self.lasted = list[float]()

    async def _claim(self, request: Request) -> list[Job]:
        assert request.seconds is not None
        self.lasted.append(request.seconds)
        self._fake.advance(request.seconds)
        raise NothingPending("nothing")


async def test_long_polls_that_begin_together_do_not_end_together() -> None:
    broker = Asking(FakeClock())
    assert await broker.claim(Ask(worker_id="w", wait=WAIT)) == []
    *before, _ = broker.lasted
    assert all(POLL / 2 <= lasted <= POLL for lasted in before)
    assert max(before) - min(before) > POLL / 4
    assert sum(broker.lasted) == pytest.approx(WAIT)
