"""Many who wait for nothing ask for little; and when all of them begin anew in one moment, each gets its job."""

import asyncio
import socket
import time
from collections import Counter
from typing import Any, Self

import pytest

import dibs
from dibs.stores.redis.cluster.shards import SHARDS

APPS, EACH = 5, 100
WATCHED = 3.0
"""Seconds."""
AT_MOST = 5.0
"""Looks a second, of one process. If each who waits looked, there were twenty."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When something was sent to a server, from this process."""
    sent: list[float] = []
    send = socket.socket.send

    def note(self: socket.socket, data: Any, *flags: int) -> int:
        if self.family is not socket.AF_UNIX:  # that is how threads wake an event loop
            sent.append(time.monotonic())
        return send(self, data, *flags)

    monkeypatch.setattr(socket.socket, "send", note)
    return sent


class Crowd:
    """Many who wait, in apps that have connections of their own, as other processes have."""

    def __init__(self, url: str) -> None:
        self.apps = [dibs.App(url) for _ in range(APPS)]
        self.waiting = [
            asyncio.ensure_future(app.claim(f"w{n}", lease=60, wait=50)) for app in self.apps for n in range(EACH)
        ]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave, all in one moment."""
        for task in self.waiting:
            task.cancel()
        await asyncio.gather(*self.waiting, return_exceptions=True)
        await asyncio.gather(*(app.close() for app in self.apps))


async def asked_a_second(sent: list[float]) -> float:
    began, before = time.monotonic(), len(sent)
    await asyncio.sleep(WATCHED)
    return (len(sent) - before) / (time.monotonic() - began)


@pytest.mark.slow
@pytest.mark.parametrize(("url", "look"), [("served", 1), ("redis", 1), ("cluster", SHARDS)], indirect=["url"])
async def test_many_who_wait_ask_seldom_also_after_all_began_anew(url: str, look: int, sent: list[float]) -> None:
    """On the others, where one sees better what is asked: test_notice.py, test_wake.py, tests/broker/test_line.py."""
    async with Crowd(url):
        await asyncio.sleep(0.5)
    async with Crowd(url) as crowd:
        async with asyncio.timeout(40):  # on a busy machine it takes a while until all have asked
            while await asked_a_second(sent) > AT_MOST * look * APPS:
                pass
        assert not any(task.done() for task in crowd.waiting)

        jobs = await crowd.apps[0].enqueue_many([dibs.NewJob("t", number) for number in range(APPS * EACH)])
        claims = await asyncio.wait_for(asyncio.gather(*crowd.waiting), 30)
        assert Counter(claim and claim.id for claim in claims) == Counter(job.id for job in jobs)
