"""A server, as the brokers of one app share it: connections of each loop, and asking again where that is safe."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, NamedTuple

from dibs.broker.batching import to_its_end
from dibs.broker.http import address
from dibs.broker.http.errors import error_of
from dibs.broker.http.link import Link
from dibs.domain.errors import RateLimited, StoreUnavailable
from dibs.stores.common.pool import Pool
from dibs.stores.common.sites import Resident, Sites

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dibs.broker.http.link import Response
    from dibs.clock import Clock
    from dibs.domain.errors import DibsError

SECONDS = 10.0
"""How long an answer may take that is not waited for on purpose: a third of a worker's lease, so that there is time to
extend it on another connection."""
BYTES_A_SECOND = 2**20
"""How much is sent in a second over a slow line."""
TRIES = 5
"""How often a request is sent that got no answer and may be sent again: for about three seconds."""
PATIENCE = 90.0
"""Seconds that a server may ask to be left alone for, all in all, before its refusal is passed on."""
MOST = 32
"""Connections of one event loop; those on which someone waits for a job are not counted."""
MOST_WAITING = 1000

_UNTRUSTED = (
    "Check the name in the URL. A certificate that no public authority has signed is trusted if it, or its "
    "authority's, is in the file that SSL_CERT_FILE names."
)
_WELL = 300  # below it; an address elsewhere is not followed, for it would be told the key


class Request(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes | None = None
    again: bool = False  # sending it twice does no more than sending it once
    jobs: bool = False  # its body has jobs to be enqueued
    seconds: float | None = 0.0  # that its answer may take beyond what any may; none: as long as it likes
    undo: Callable[[Response], Awaitable[None]] | None = None  # of an answer that came as its caller gave up


class Lost(Exception):
    """There was no answer. ``unsent``: nothing was sent, so nothing was done; ``hopeless``: nor will it be later."""

    def __init__(self, message: str, *, unsent: bool, hopeless: bool = False) -> None:
        self.unsent, self.hopeless = unsent, hopeless
        super().__init__(message)


class Remote:
    """A server by its URL. It is connected to when it is first used, from any thread or loop."""

    def __init__(self, url: str, api_key: str | None, clock: Clock) -> None:
        self.address = address.read(url, api_key)
        self._sites = Sites(self.address.name, lambda: Line(self.address, clock))

    def line(self) -> Line:
        """Give the connections of the running loop."""
        return self._sites.here()

    async def close(self) -> None:
        """Let go of all connections."""
        await self._sites.close(lambda: None)


class Line(Resident):
    """One event loop's connections to a server."""

    def __init__(self, address: address.Address, clock: Clock) -> None:
        super().__init__()
        self._address, self._clock = address, clock
        self._pool: Pool[Link] = Pool(lambda: Link.connect(address), MOST)
        # Apart, so that those who wait for a job keep no one from settling one; nor does any of them wait for another.
        self._waiting: Pool[Link] = Pool(lambda: Link.connect(address), MOST_WAITING, worth=0.0)
        self._begun = self._closed = False

    async def ask(self, request: Request) -> Response:
        """Send a request; return what was answered if it was done, or raise why not."""
        patience, tries, in_doubt = PATIENCE, 0, False
        while True:
            tries += 1
            try:
                response = await self._send(request)
            except Lost as lost:
                # What was sent may have been done: only what may be done twice is sent twice.
                if tries >= TRIES or lost.hopeless or not (request.again or lost.unsent):
                    raise self._unreachable(lost) from lost.__cause__
                in_doubt |= not lost.unsent
                await self._clock.sleep(self._pause(tries))
                continue
            if response.status < _WELL:
                return response._replace(in_doubt=True) if in_doubt else response
            error = error_of(response, self._address.name, jobs=request.jobs)
            wait = self._wait_before_next(request, response, error, tries)
            if wait is None or wait > patience:
                raise error
            in_doubt |= not isinstance(error, RateLimited)
            patience -= wait
            await self._clock.sleep(wait)

    def _wait_before_next(self, request: Request, response: Response, error: DibsError, tries: int) -> float | None:
        """Say how long to wait before a refused request is sent again; none: it is not."""
        told = response.headers.get(b"retry-after", b"")
        seconds = float(told) if told.isdigit() else 0.0
        if isinstance(error, RateLimited):
            # It was not even looked at, so whatever it is may be sent again. A little later than told: others were too.
            return max(seconds, 0.1) * self._clock.random.uniform(1.0, 1.1)
        if type(error) is not StoreUnavailable or not request.again or tries >= TRIES:
            return None
        return max(seconds, self._pause(tries))

    async def _send(self, request: Request) -> Response:
        if not self._begun:
            self._begun = True
            await self.stay()
        data = self._address.request(request.method, request.path, request.body)
        sent, began = False, asyncio.get_running_loop().time()
        try:
            async with (self._pool if request.undo is None else self._waiting).connection() as link:
                sent = True
                try:
                    return await link.call(data, _patience(request, len(data)))
                except asyncio.CancelledError:
                    if request.undo is not None:
                        await to_its_end(_see_off(link, request.undo))
                    raise
        except ssl.SSLCertVerificationError as error:
            raise Lost(f"certificate verify failed: {error.verify_message}", unsent=True, hopeless=True) from error
        except (OSError, TimeoutError) as error:
            if sent and isinstance(error, TimeoutError):
                self._doubt(began)
            raise Lost(str(error) or type(error).__name__, unsent=not sent) from error
        finally:
            if self._closed:  # Race: closed while it connected. No one else would know of that connection.
                self.terminate()

    def _doubt(self, began: float) -> None:
        """Cut what others wait on, if it has said nothing since a call began that was not answered in time.

        A network that fell silent would keep those who wait for a job until their wait is over, and longer; what is
        cut in vain is asked for anew.
        """
        self._waiting.cut(lambda link: link.heard_at < began)

    def _pause(self, tries: int) -> float:
        return 0.1 * 2.0**tries * self._clock.random.uniform(0.5, 1.0)

    def _unreachable(self, lost: Lost) -> StoreUnavailable:
        if lost.hopeless:
            return StoreUnavailable(f"{self._address.name} is not trusted: {lost}", hint=_UNTRUSTED)
        if lost.unsent:
            return StoreUnavailable(f"{self._address.name} cannot be reached: {lost}")
        return StoreUnavailable(f"{self._address.name} gave no answer, and may have done what was asked: {lost}")

    # The end

    async def let_go(self) -> None:
        """Let go of all connections."""
        self._closed = True
        await self._pool.close()
        await self._waiting.close()

    def terminate(self) -> None:
        """Cut all connections, without waiting."""
        self._closed = True
        self._pool.terminate()
        self._waiting.terminate()


def _patience(request: Request, size: int) -> float | None:
    return None if request.seconds is None else SECONDS + request.seconds + size / BYTES_A_SECOND


async def _see_off(link: Link, undo: Callable[[Response], Awaitable[None]]) -> None:
    """Undo what was answered to one who gave up, if it was."""
    response = await link.farewell()
    if response is not None and response.status < _WELL:
        await undo(response)
