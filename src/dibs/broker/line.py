"""Claims that wait for the same stand in line: one look for all of them, and no more are called than there are jobs.

The first of a line looks for all. When there may be something it claims; if it got all that it had asked for there may
be more, and the next is called; then as many as have got something so far, all at once, until one comes back with less.
So n jobs cost 2n claims at the most, however many wait, and the last of many is reached in few steps.

That is one event loop. Of many processes each has its own line, and all are told of a job: see ``dibs.broker.crowd``.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dibs.broker.crowd import Crowd
from dibs.clock import Bell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from dibs.broker.maintenance import Maintenance
    from dibs.clock import Clock
    from dibs.domain.job import ClaimRequest, Job
    from dibs.domain.settings import Config
    from dibs.store import Store

LONGEST_NAP = 0.5
"""Seconds between two looks of a waiting claim whose hints keep coming to nothing."""
MANY = 10
"""Hints in vain after which the naps get no longer."""
MOST_CROWDS = 1000
"""Wishes of which it is remembered how many others have them."""
TICK = 1e-6
"""Seconds; what a clock that counts microseconds cannot tell apart from nothing."""


_Key = tuple[object, ...]


class Place:
    """The place of one who waits."""

    __slots__ = ("bell", "called", "in_vain", "reaped", "request")

    def __init__(self, request: ClaimRequest, clock: Clock) -> None:
        self.request, self.bell = request, Bell(clock)
        self.called = False  # it is to claim, and to tell what it got
        self.reaped = clock.monotonic()
        self.in_vain = 0


class Line:
    """Who waits for the same, in the order in which they came. Nothing in here is awaited, so nothing comes between."""

    def __init__(self) -> None:
        self._places: dict[Place, None] = {}
        self._out = 0  # how many are claiming
        self._got = 0  # how many have got all that they asked for, since there was news
        self._dry = False  # whether someone has got less

    def __len__(self) -> int:
        return len(self._places)

    def join(self, place: Place) -> None:
        """Stand at the end."""
        self._places[place] = None

    def leads(self, place: Place) -> bool:
        """Say whether it is the first, and no one is claiming: then it is the one to look."""
        return self._out == 0 and next(iter(self._places)) is place

    def begin(self, place: Place) -> None:
        """Let the first claim, who has heard that there may be something."""
        self._out, self._got, self._dry = 1, 0, False
        place.called = True

    def told(self, place: Place, jobs: list[Job]) -> None:
        """Hear what one of those who were called has got, and call others if there may be more."""
        full = len(jobs) >= place.request.limit
        self._got += full
        self._dry = self._dry or not full
        if jobs:
            del self._places[place]
        self._back(place)

    def leave(self, place: Place) -> None:
        """Go, with a job or without one."""
        self._places.pop(place, None)
        if place.called:  # Race: called, and gone before it could ask. Others are called in its stead
            self._back(place)
        self._wake_first()

    def _back(self, place: Place) -> None:
        place.called = False
        self._out -= 1
        if self._out == 0 and not self._dry:
            for following in islice(self._places, self._got):
                following.called = True
                following.bell.ring()
                self._out += 1
        self._wake_first()

    def _wake_first(self) -> None:
        if self._out == 0 and self._places:
            next(iter(self._places)).bell.ring()


class Lines:
    """All who wait on one event loop."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        config: Config,
        maintenance: Maintenance,
        claim: Callable[[list[ClaimRequest]], Coroutine[Any, Any, list[list[Job]]]],
        *,
        rivals: Callable[[ClaimRequest], Awaitable[int]],
    ) -> None:
        self._store, self._clock, self._config, self._maintenance = store, clock, config, maintenance
        self._claim, self._rivals = claim, rivals
        self._lines: dict[_Key, Line] = {}
        self._crowds: dict[_Key, Crowd] = {}  # they outlive their lines: a worker's claim ends and begins anew
        self._first_wait: float | None = None  # what the looks of all who wait are counted from

    async def wait(self, request: ClaimRequest, wait: float) -> list[Job]:
        """Wait until there is a job for this request; none if its time is over."""
        key = (request.queues, request.tasks, request.min_attempts_left, request.order)
        line, crowd = self._lines.setdefault(key, Line()), self._crowd(key)
        place, end = Place(request, self._clock), self._clock.monotonic() + wait
        line.join(place)
        try:
            while (left := end - self._clock.monotonic()) >= TICK:
                listener = place.bell.listen()  # before looking: a call that comes while we look is heard
                if not place.called and not line.leads(place):
                    await listener.wait(left)
                    continue
                listener.close()
                jobs = await (self._ask(line, place) if place.called else self._lead(line, crowd, place, end))
                if jobs:
                    return jobs
        finally:
            line.leave(place)
            if not line:
                self._lines.pop(key, None)
        return []

    def _crowd(self, key: _Key) -> Crowd:
        if key not in self._crowds:
            if len(self._crowds) >= MOST_CROWDS:
                self._crowds.clear()
            self._crowds[key] = Crowd(self._clock, self._rivals)
        return self._crowds[key]

    async def _ask(self, line: Line, place: Place, heard: frozenset[str] | None = None) -> list[Job]:
        [jobs] = await self._claim([replace(place.request, heard=heard)])
        line.told(place, jobs)
        return jobs

    async def _lead(self, line: Line, crowd: Crowd, place: Place, end: float) -> list[Job]:
        """Look for all, until there may be something or it is time to see for oneself; and claim."""
        asked = self._clock.monotonic()
        nap = min(end - asked, self._until_next_look(asked))
        heard = await self._store.wait(place.request, nap, lambda: crowd.askers(place.request, len(line)))
        now = self._clock.monotonic()
        hinted = now - asked < nap - TICK
        if hinted and not await crowd.calls(place.request, len(line)):
            await self._clock.sleep(max(0.0, asked + nap - self._clock.monotonic()))
            now, hinted = self._clock.monotonic(), False
        line.begin(place)
        jobs = await self._ask(line, place, heard if hinted else None)
        crowd.told(hinted=hinted, found=bool(jobs))
        # Hints may come without end where others are busy: leases that ran out are looked after all the same.
        if not jobs and (not hinted or now - place.reaped >= self._config.reap_every):
            place.reaped = now
            if await self._maintenance.reap_any():
                line.begin(place)
                jobs = await self._ask(line, place)
        if not jobs:
            await self._rest(place, now - asked, end)
        return jobs

    async def _rest(self, place: Place, waited: float, end: float) -> None:
        """Rest after hints that are there at once, again and again, and come to nothing: they must not become a loop.

        One that was waited for is no loop: others were faster this time, and whoever naps would miss the next.
        """
        at_once = waited < 0.001 * 2**place.in_vain
        place.in_vain = min(place.in_vain + 1, MANY) if at_once else 0
        if place.in_vain > 1:
            left = max(0.0, end - self._clock.monotonic())
            await self._clock.sleep(min(LONGEST_NAP, 0.001 * 2**place.in_vain, left))

    def _until_next_look(self, now: float) -> float:
        """Say how long a waiting claim trusts the store. All look at the same moments: then they are one call to it.

        But not at those of other processes, which may have been started together with this one.
        """
        every = self._config.poll_every
        if self._first_wait is None:
            self._first_wait = now - self._clock.random.uniform(0.0, every)
        left = every - (now - self._first_wait) % every
        return left if left > TICK else every
