"""Params are checked by the schemas that workers have published, before anything is enqueued.

The schemas are read together, and remembered for a moment. A store that does not answer is no reason to refuse: what
is remembered is used then, or nothing. Nor is a schema that cannot be understood.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import jsonschema_rs

from dibs.domain.errors import DibsError, InvalidJob
from dibs.server.misfits import misfits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.broker.protocol import Broker
    from dibs.clock import Clock
    from dibs.domain.errors import Problem
    from dibs.domain.newjob import NewJob
    from dibs.domain.schema import SchemaInfo

logger = logging.getLogger("dibs")

FRESH = 5.0
"""Seconds that schemas are used without asking again."""
STALE = 60.0
"""Seconds after which they are used only if the store does not answer."""
PATIENCE = 2.0
"""Seconds that a request waits for them."""
MOST_PROBLEMS = 100


class Known(NamedTuple):
    """One version of a task's schema, ready to check with; none: it cannot be understood, and everything fits."""

    digest: str
    validator: jsonschema_rs.Draft202012Validator | None
    names: tuple[str, ...]  # of the arguments

    def fits(self, params: Any) -> bool:
        """Say whether params are as this version wants them. What is no text at all is for the broker to refuse."""
        try:
            return self.validator is None or self.validator.is_valid(params)
        except ValueError:  # a lone surrogate
            return True


class Checker:
    """Checks jobs that are to be enqueued."""

    def __init__(self, broker: Callable[[], Broker], clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._known: dict[str, list[Known]] = {}
        self._read_at: float | None = None  # when what is known was true
        self._asked_at: float | None = None  # when it was last asked for, whatever came of it
        self._reading: asyncio.Task[None] | None = None

    async def check(self, jobs: Sequence[NewJob]) -> None:
        """Refuse jobs whose params fit no version of their task's schema, all of them at once."""
        known = await self._schemas()
        if not known:
            return
        problems: list[Problem] = []
        for place, job in enumerate(jobs):
            versions = known.get(job.task)
            if versions is None or len(problems) >= MOST_PROBLEMS:
                continue
            params = {} if job.params is None else job.params  # as a worker takes it
            if not any(version.fits(params) for version in versions):
                where = f"jobs[{place}].params" if len(jobs) > 1 else "params"
                problems += misfits(versions[0], job.task, params, where)
        if problems:
            raise InvalidJob(problems[:MOST_PROBLEMS])

    async def _schemas(self) -> dict[str, list[Known]]:
        now = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        if self._reading is not None and self._reading.get_loop() is not loop:
            self._reading = None  # of a loop that is gone, with whatever it was about to read
        if self._reading is None and (self._asked_at is None or now - self._asked_at >= FRESH):
            self._asked_at = now
            self._reading = loop.create_task(self._read(), name="dibs-schemas")
            waits = True  # one request asks; those that come meanwhile use what there is, if it is not too old
        else:
            waits = self._read_at is None or now - self._read_at >= STALE
        if waits and self._reading is not None:
            await asyncio.wait([self._reading], timeout=PATIENCE)  # whoever gives up does not end it
        return self._known

    async def _read(self) -> None:
        began = self._clock.monotonic()
        try:
            found = await self._broker().schemas()
        except DibsError as error:
            logger.warning("params are checked by what was known before, if anything: %s", error)
        except Exception:
            logger.exception("schemas could not be read: params are checked by what was known before, if anything")
        else:
            self._take_in(found)
            self._read_at = began
        finally:
            self._reading = None

    def _take_in(self, found: list[SchemaInfo]) -> None:
        before = {(task, each.digest): each for task, versions in self._known.items() for each in versions}
        known: dict[str, list[Known]] = {}
        for info in found:
            version = before.get((info.task, info.digest)) or _understood(info)
            known.setdefault(info.task, []).append(version)
        self._known = known


def _understood(info: SchemaInfo) -> Known:
    try:
        validator = jsonschema_rs.Draft202012Validator(
            info.schema_json.decode(),
            validate_formats=False,
            mask="it",  # what was sent is not repeated
            offline=True,  # a schema that names another elsewhere does not make the server ask for it
        )
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        logger.warning("the schema %.12s of task %r is not understood: %s", info.digest, info.task, reason)
        return Known(info.digest, None, ())
    properties = info.schema.get("properties")
    return Known(info.digest, validator, tuple(properties) if isinstance(properties, dict) else ())
