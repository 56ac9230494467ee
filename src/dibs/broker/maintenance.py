"""Reaping and pruning. Any number of processes may do both at once: every step is compared again when it is written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from dibs.domain import transitions
from dibs.domain.errors import StoreUnavailable
from dibs.domain.job import Outcome

if TYPE_CHECKING:
    from dibs.broker.batches import Batches
    from dibs.broker.rates import Rates
    from dibs.clock import Clock
    from dibs.domain.settings import Config
    from dibs.store import Store

logger = logging.getLogger("dibs")

REAP_STEP = 500
PRUNE_STEP = 500
SELDOM = 8
"""How many times as seldom it is pruned where nothing was found to be removed, again and again: many processes look,
and nearly all of them in vain."""


class _Reaped(NamedTuple):
    found: int
    taken: int


class Maintenance:
    """Looks after what no worker looks after any more."""

    def __init__(self, store: Store, clock: Clock, config: Config) -> None:
        self._store = store
        self._clock = clock
        self._config = config

    async def reap(self) -> int:
        """Take away claims whose lease ran out; say how many."""
        return (await self._reap()).taken

    async def reap_any(self) -> bool:
        """Reap; say whether any lease had run out, though another reaper may have been faster to take it away."""
        return (await self._reap()).found > 0

    async def _reap(self) -> _Reaped:
        found = taken = 0
        while True:
            jobs = await self._store.expired(REAP_STEP)
            if not jobs:
                return _Reaped(found, taken)
            written = await self._store.write([transitions.expire(job, self._clock.random) for job in jobs])
            applied = sum(answer.outcome is Outcome.APPLIED for answer in written)
            found += len(jobs)
            taken += applied
            # Nothing applied: others were faster, or the rows are locked. The next look finds what is left.
            if len(jobs) < REAP_STEP or not applied:
                return _Reaped(found, taken)

    async def prune(self) -> int:
        """Remove what has been kept long enough, in small steps, so that no claim has to wait for long."""
        pruned = 0
        while True:
            step = await self._store.prune(PRUNE_STEP)
            pruned += step
            if step < PRUNE_STEP:
                return pruned
            await self._clock.sleep(self._clock.random.uniform(0.0, 0.02))

    async def run(self, batches: Batches | None = None, rates: Rates | None = None) -> None:
        """Do both again and again, and tell what was claimed meanwhile.

        Jitter keeps processes that started together from looking together.
        """
        turn, turns = 0, 1  # it is pruned at every so many turns
        next_turn = self._next_turn(0.0)
        while True:
            await self._clock.sleep(self._config.reap_every * self._clock.random.uniform(0.5, 1.0))
            try:
                reaped = await self.reap()
                if reaped:
                    logger.warning("took over %d claims whose lease had run out", reaped)
                if rates is not None:
                    await rates.tell()
                if self._clock.monotonic() >= next_turn:
                    turn += 1
                    if turn >= turns:
                        turn, turns = 0, 1 if await self.prune() else min(SELDOM, 2 * turns)
                    if batches is not None:
                        await batches.look()
                    next_turn = self._next_turn(0.5)
            except StoreUnavailable as error:
                logger.warning("maintenance will be tried again: %s", error)
                next_turn = self._next_turn(0.0)  # not as soon as it is back: all whose turn it was would come then

    def _next_turn(self, soonest: float) -> float:
        return self._clock.monotonic() + self._config.prune_every * self._clock.random.uniform(soonest, 1.0)
