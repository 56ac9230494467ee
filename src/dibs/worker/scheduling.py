"""A worker looks after the app's schedules, off the handlers' loop: it publishes them, then enqueues what is due."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError, StoreUnavailable
from dibs.worker.beside import Beside
from dibs.worker.pace import pause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Listener
    from dibs.domain.schedule import Plan
    from dibs.runtime import Runtime

logger = logging.getLogger("dibs")

LOOK_EVERY = 5.0
"""Seconds between two looks at the most: so soon what an operator or a newer process has changed is heeded."""
SPREAD = 0.05
"""Seconds over which the processes that wait for one tick are spread: the later ones find it dealt with."""
REFUSED_PAUSE = 60.0
"""Seconds until a refusal is tried again: what a key may do, or what a job may be, does not change soon."""


class Scheduling(Beside):
    """Looks after schedules until it is told to leave. Any number of processes may look after the same ones."""

    def __init__(self, runtime: Runtime, plans: Sequence[Plan]) -> None:
        super().__init__(runtime)
        self._plans = {plan.name: plan for plan in plans}
        if plans:
            self.begin()

    async def _run(self) -> None:
        unpublished = list(self._plans)
        failures = 0
        while not self._left:
            listener = self._bell.listen()  # before looking: what rings while we look is heard
            try:
                unpublished = await self._look(unpublished, listener)
                failures = 0
            except StoreUnavailable as error:
                failures += 1
                logger.warning("schedules will be looked at again: %s", error)
                await listener.wait(pause(self._runtime, failures))
            except DibsError as error:
                logger.error("schedules cannot be looked after, and will be tried again: %s", error)  # noqa: TRY400
                await listener.wait(REFUSED_PAUSE)

    async def _look(self, unpublished: list[str], listener: Listener) -> list[str]:
        """Publish what the store does not know, enqueue what is due, and wait until more is; name what is unknown."""
        broker = self._runtime.broker()
        if unpublished:
            await broker.publish([self._plans[name] for name in unpublished])
        ticked = await broker.tick(list(self._plans))
        next_in = LOOK_EVERY if ticked.next_in is None else min(LOOK_EVERY, ticked.next_in)
        await listener.wait(0.0 if ticked.unknown else next_in + self._runtime.clock.random.uniform(0.0, SPREAD))
        return list(ticked.unknown)
