"""A worker's presence: it says that it is alive, off the handlers' loop, and at last that it has left."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dibs.broker.protocol import BEAT_EVERY
from dibs.domain.errors import DibsError
from dibs.worker.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.domain.job import Json
    from dibs.runtime import Runtime

logger = logging.getLogger("dibs")


class Presence(Beside):
    """Beats until it is told to leave. It is for people to see: no claim depends on it."""

    def __init__(self, runtime: Runtime, worker_id: str, metadata: Mapping[str, Json]) -> None:
        super().__init__(runtime)
        self._worker_id = worker_id
        self._metadata = metadata
        self.heard_at: float | None = None  # when the store last took a beat
        self.begin()

    async def _run(self) -> None:
        clock = self._runtime.clock
        soonest = 0.0  # workers that were started together are to beat together no more than once
        while not self._left:
            listener = self._bell.listen()  # before looking: what rings while we look is heard
            try:
                await self._runtime.broker().beat(self._worker_id, metadata=self._metadata, every=BEAT_EVERY)
                self.heard_at = clock.monotonic()
            except DibsError as error:
                logger.warning("worker %s could not say that it is alive: %s", self._worker_id, error)
            await listener.wait(BEAT_EVERY * clock.random.uniform(soonest, 1.0))
            soonest = 0.8
        # Race: a beat that lands after the farewell. Both are sent from here, one after the other.
        try:
            await self._runtime.broker().retire(self._worker_id)
        except DibsError as error:
            logger.warning("worker %s could not say that it has left: %s", self._worker_id, error)
