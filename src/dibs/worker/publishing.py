"""A worker says what the params of its tasks must look like, so that a server can refuse others before they wait."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dibs.domain.errors import DibsError, StoreUnavailable, TooLarge
from dibs.domain.schema import ANYTHING, MAX_SCHEMA, MOST_OFFERS, Offer, offer_of
from dibs.worker.beside import Beside
from dibs.worker.pace import pause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Listener
    from dibs.runtime import Runtime
    from dibs.task import Task

logger = logging.getLogger("dibs")

LOOK_EVERY = 1800.0
"""Seconds between two looks at the most: see ``dibs.domain.schema.SAID``."""


class Publishing(Beside):
    """Publishes schemas as the worker begins, and looks now and then whether they are still known. No job needs it."""

    def __init__(self, runtime: Runtime, worker_id: str, tasks: Sequence[Task[..., Any]], *, once: bool) -> None:
        super().__init__(runtime)
        self._worker_id = worker_id
        self._tasks = tasks
        self._once = once
        self.begin()

    async def _run(self) -> None:
        offers = offers_of(self._tasks)
        failures = 0
        while True:  # once at the least: a worker that has little to do may have left by now
            listener = self._bell.listen()  # before looking: what rings while we look is heard
            seconds = LOOK_EVERY * self._runtime.clock.random.uniform(0.8, 1.0)
            try:
                await self._publish(offers)
                failures = 0
            except StoreUnavailable as error:
                failures += 1
                seconds = pause(self._runtime, failures)
                logger.debug("schemas will be published later: %s", error)
            except DibsError as error:  # a key that may not, or a server that does not know how: nothing depends on it
                logger.info("schemas are not published: %s", error)
                return
            if (self._once and not failures) or await self._has_left(listener, seconds):
                return

    async def _has_left(self, listener: Listener, seconds: float) -> bool:
        """Wait for so long, or until the worker leaves; say whether it has."""
        if not self._left:
            await listener.wait(seconds)
        return self._left

    async def _publish(self, offers: list[Offer]) -> None:
        for start in range(0, len(offers), MOST_OFFERS):
            await self._runtime.broker().publish_schemas(offers[start : start + MOST_OFFERS], by=self._worker_id)


def offers_of(tasks: Sequence[Task[..., Any]]) -> list[Offer]:
    """Make what is published of tasks. In the place of a schema that is too large goes one that everything fits.

    Not nothing: an older one of the same task would stay, and params that fit the newer one be refused.
    """
    offers: list[Offer] = []
    for task in tasks:
        try:
            offers.append(offer_of(task.name, task.schema))
        except TooLarge as error:
            logger.warning(
                "the schema of task %r has %d bytes, %d at most: its params are not checked by servers",
                *(task.name, error.size, MAX_SCHEMA),
            )
            offers.append(Offer(task.name, ANYTHING))
        except DibsError as error:  # a default in it that is no JSON
            logger.warning("the schema of task %r cannot be sent: %s", task.name, error)
            offers.append(Offer(task.name, ANYTHING))
    return offers
