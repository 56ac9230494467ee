"""Wake-up: those who wait hear of a job at once from this process's own commits, and of others' by a channel.

All of it is a hint. Whoever waits looks again every few seconds, so a hint that is lost costs that much and no more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Protocol

from dibs.domain.errors import DibsError
from dibs.stores.common.waiting import Pace
from dibs.stores.redis.errors import FAILURES
from dibs.stores.redis.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.stores.redis.address import Address

logger = logging.getLogger("dibs")

LISTENING = Pace(trust=5.0, poll=5.0)
"""While a listener would have heard of news."""

DEAF = Pace(trust=0.9, poll=1.0)
"""While there is none. All who want the same look together."""


class Listening(Protocol):
    """One who listens, or tries to."""

    def listening(self) -> bool:
        """Say whether hints are heard."""
        ...


async def pace(site: Listening) -> Pace:
    """Believe what was seen while news would be heard."""
    return LISTENING if site.listening() else DEAF


_PING_SECONDS = 5.0  # how long a listener's silence is believed
_PONG_SECONDS = 3.0
_AGAIN_SECONDS = (0.05, 0.1, 0.2, 0.5)  # before each try to listen again; the last one for all that follow
_chance = SystemRandom()  # those who lost their server in one moment are not to ask it in one, again and again


class Listener:
    """One connection of a loop that listens, with a task of its own, begun when someone first waits there.

    Real time throughout: other processes are waiting, whose time no fake clock moves.
    """

    def __init__(
        self,
        address: Address,
        channels: Sequence[str],
        heard: Callable[[str | None], None],
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        self._address, self._channels, self._heard, self._cut = address, list(channels), heard, cut
        self._task: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._subscribed = False
        self._last = 0.0  # when something was heard
        self._tried = 0

    def listening(self) -> bool:
        """Say whether hints are heard, after seeing to it that someone listens."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._listen(), name="dibs-listen")
        return self._subscribed

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (*FAILURES, DibsError) as error:
                logger.debug("the listener was cut off, and will be back: %s", error)
                self._cut()
            finally:
                self._subscribed = False
                self.terminate_link()
            await asyncio.sleep(_AGAIN_SECONDS[min(self._tried, len(_AGAIN_SECONDS) - 1)] * _chance.uniform(0.5, 1.5))
            self._tried += 1

    async def _listen_once(self) -> None:
        link = self._link = await Link.connect(self._address)
        for channel in self._channels:  # on a cluster those of one node, each in a slot of its own
            link.send(b"SSUBSCRIBE", channel)
        async with asyncio.timeout(self._address.timeout):
            for _ in self._channels:
                await link.receive()
        self._subscribed, self._tried = True, 0
        self._heard(None)  # what came while no one listened is for a look to find
        link.pass_on(self._take)
        self._last = time.monotonic()
        believed = _PING_SECONDS * _chance.uniform(0.5, 1.0)
        while True:
            if (left := self._last + believed - time.monotonic()) > 0:
                await link.loss(left)
                continue
            before, believed = self._last, _PING_SECONDS * _chance.uniform(0.8, 1.0)
            link.send(b"PING")
            await link.loss(_PONG_SECONDS)
            if self._last == before:
                raise TimeoutError

    def _take(self, message: Any) -> None:
        self._last = time.monotonic()
        if isinstance(message, list) and message[0] == b"smessage":
            self._heard(message[2].decode())
        elif isinstance(message, list) and message[0] == b"sunsubscribe":  # the channel is another node's now
            self.terminate_link()

    def terminate_link(self) -> None:
        """Cut the connection, without waiting."""
        link, self._link = self._link, None
        if link is not None:
            link.terminate()

    async def close(self) -> None:
        """Stop listening."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
        self.terminate_link()

    def terminate(self) -> None:
        """Stop listening, without waiting."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self.terminate_link()
