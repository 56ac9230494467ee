"""Any program as a handler: params on its stdin, its stdout as the result, its exit status as the job's end."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.claim import current
from dibs.domain.errors import Invalid, InvalidRequest
from dibs.domain.failure import MAX_ERROR
from dibs.domain.job import Error
from dibs.domain.retry import SECOND
from dibs.domain.signals import Fail
from dibs.domain.validate import encode
from dibs.task import Task, Tasks
from dibs.worker.group import Group, exit_code
from dibs.worker.guard import Guard
from dibs.worker.settling import Exited, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.app import App
    from dibs.claim import Claim
    from dibs.domain.job import Json

NO_RETRY = 100
"""The exit status of a command whose job is not to be tried again."""
PATIENCE = 5.0
"""Seconds between SIGTERM and SIGKILL."""


class Command:
    """Runs a command for each job of some tasks. ``echo`` is given what it prints on stderr, as it comes."""

    def __init__(
        self, app: App, words: Sequence[str], tasks: Sequence[str], *, echo: Callable[[bytes], None] | None = None
    ) -> None:
        self._words = list(words)
        self._limit = app.runtime.config.max_result_bytes
        self._echo = echo
        self._guard = Guard()
        self._running: dict[Group, None] = {}
        made = Tasks()
        for name in tasks:
            made.by_name[name] = _Whole(self._handle, name, {}, made)
        app.include(made)

    def pass_on(self, number: signal.Signals) -> None:
        """Pass a signal on to the commands that run."""
        for group in self._running:
            group.pass_on(number)

    def suspend(self) -> None:
        """Stand still, with all that runs, until we are continued: else they would go on without a lease."""
        for group in self._running:
            group.send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        for group in self._running:
            group.send(signal.SIGCONT)

    def close(self) -> None:
        """Let go of what is left."""
        self._guard.close()

    async def _handle(self) -> Json:
        claim = current()
        timeout = claim.job.terms.timeout_us
        limit = None if timeout is None else timeout / SECOND
        out, err = Head(self._limit), Tail(MAX_ERROR, self._echo)
        group = await Group.start(
            self._words,
            environment(claim),
            self._guard,
            feed=claim.job.params_json + b"\n",
            out=out.take,
            err=err.take,
        )
        self._running[group] = None
        try:
            status = await _ended(group, limit)
        finally:
            del self._running[group]
            await group.close()
        if status is None:
            raise TimedOut(limit, detail=err.text())
        return _judge(status, out, err)


class _Whole(Task[[], Any]):
    """A task that takes its params as they are, and sees to its own time."""

    keeps_time = True

    @property
    def schema(self) -> dict[str, Any]:
        return {}

    def arguments(self, params: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:  # noqa: ARG002 - they go to stdin
        return (), {}


def environment(claim: Claim) -> Mapping[str, str]:
    """Say to a command what it runs for. The lease token is not among it: whoever settles is the worker."""
    job = claim.job
    return {
        **os.environ,
        "DIBS_ID": job.id,
        "DIBS_TASK": job.task,
        "DIBS_QUEUE": job.queue,
        "DIBS_FENCE": str(claim.fence),
        "DIBS_ATTEMPT": str(claim.attempt),
        "DIBS_MAX_ATTEMPTS": str(job.max_attempts),
        "DIBS_WORKER_ID": job.worker_id or "",
    }


async def _ended(group: Group, limit: float | None) -> int | None:
    """Wait for the command's exit status; none if it took too long, and was made to end."""
    try:
        async with asyncio.timeout(limit):
            return await group.ended()
    except TimeoutError:
        await group.stop(PATIENCE)
        return None
    except asyncio.CancelledError:
        # Lost, or told to stop. Whatever it exits with after that says nothing about its work.
        await group.stop(PATIENCE)
        raise


def _judge(status: int, out: Head, err: Tail) -> Json:
    if status == 0:
        if out.over:
            raise Fail(f"it printed more than the {out.most} bytes that a result may have", code="too_large")
        return result(bytes(out.data))
    code = exit_code(status)
    what = f"exit status {code}" if status > 0 else f"killed by {code}"
    said = err.text().strip()
    message = f"{what}: {said.splitlines()[-1]}" if said else what
    raise Exited(Error(message, "exit", code, said or None), retryable=status != NO_RETRY)


def result(printed: bytes) -> Json:
    """Read what a command printed: as JSON if it is some that can be kept, else as a text; none if it is nothing."""
    text = printed.decode("utf-8", "backslashreplace").rstrip("\r\n")
    if not text.strip():
        return None
    try:
        value: Json = msgspec.json.decode(printed)
        encode("result", value, len(printed) * 8, InvalidRequest)
    except (ValueError, RecursionError, Invalid):
        return text
    return value


class Head:
    """Keeps the beginning of what it is given, and whether there was more."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.data = bytearray()
        self.over = False

    def take(self, data: bytes) -> None:
        """Take in some more."""
        room = self.most - len(self.data)
        self.data += data[:room]
        self.over = self.over or len(data) > room


class Tail:
    """Keeps the end of what it is given, and shows all of it to someone else."""

    def __init__(self, most: int, echo: Callable[[bytes], None] | None) -> None:
        self._most = most
        self._data = bytearray()
        self._echo = echo

    def take(self, data: bytes) -> None:
        """Take in some more."""
        if self._echo is not None:
            self._echo(data)
        self._data += data
        del self._data[: -self._most]

    def text(self) -> str:
        """Give the end as a text."""
        return self._data.decode("utf-8", "backslashreplace")
