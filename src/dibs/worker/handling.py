"""One job: its handler is called, and what comes of that is how the job shall end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from dibs.claim import set_current
from dibs.domain.errors import Invalid
from dibs.domain.retry import SECOND
from dibs.domain.signals import Fail, Retry, Signal, Snooze
from dibs.middleware import wrap
from dibs.task import is_async
from dibs.worker.settling import Exited, Reported, Settlement, TimedOut, completed, failed, released
from dibs.worker.threads import Raised, Threads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dibs.claim import Claim
    from dibs.middleware import Middleware
    from dibs.task import Task
    from dibs.worker.processes import Processes

logger = logging.getLogger("dibs")

_scope: ContextVar[asyncio.Timeout | None] = ContextVar("dibs_timeout", default=None)


def timed_out() -> bool:
    """Say, in a middleware that is cancelled, whether that is because the job has taken longer than it may."""
    scope = _scope.get()
    return scope is not None and scope.expired()


class Handlers:
    """Knows how each task's function is called: on the loop, in a thread or in a process; and in which middleware."""

    def __init__(
        self,
        tasks: dict[str, Task[..., Any]],
        threads: Threads | None,
        processes: Processes | None = None,
        layers: Sequence[Middleware] = (),
    ) -> None:
        self._tasks = {name: (task, is_async(task.function)) for name, task in tasks.items()}
        self._threads = threads  # none: there is one thread only, and functions run on the loop
        self._processes = processes  # none: what would run in a process runs as all others do
        self._layers = tuple(layers)

    async def handle(self, claim: Claim, settle: Callable[[Settlement], None]) -> None:
        """Run the handler of a claim to its end, and tell ``settle`` how the job ends, once. Raises nothing."""
        if claim.lost:  # Race: lost in the turn of the loop between being started and this (test_lost_as_it_starts)
            logger.warning("job %r was taken over before it was started", claim.id)
            return
        set_current(claim)
        task, on_loop = self._tasks[claim.task]
        timeout = None if task.keeps_time else claim.job.terms.timeout_us
        limit = None if timeout is None else timeout / SECOND
        bind = partial(_call_of, task, claim)
        if task.process and self._processes is not None:
            # Its time counts from when it has its turn.
            bind, limit, on_loop = partial(_call_apart, self._processes, task, claim, limit), None, True
        if self._layers:
            await self._in_layers(claim, bind, limit, settle, threads=None if on_loop else self._threads)
            return
        try:
            function = bind()
        except Fail as error:
            settle(_fail(claim, error))
            return
        if on_loop or self._threads is None:
            claim.on_lost(_canceller())
            settled = await self._on_loop(claim, function, limit)
            if settled is not None:
                settle(settled)
        else:
            await self._in_thread(claim, function, limit, settle)

    async def _in_layers(
        self,
        claim: Claim,
        bind: Callable[[], Callable[[], Any]],
        limit: float | None,
        settle: Callable[[Settlement], None],
        *,
        threads: Threads | None,
    ) -> None:
        """Run a handler within the app's middleware, which is on the loop even where the handler is not.

        Whatever cancels it is raised in the middleware at once. A thread goes on, and is told that its claim is lost;
        its place is free when the function returns.
        """
        thread: asyncio.Future[Any] | None = None

        async def innermost() -> Any:
            nonlocal thread
            function = bind()  # here, so that middleware hears of params that do not fit
            if threads is None:
                return await _result(function)
            thread = threads.call(function)
            await asyncio.wait([thread])
            result = thread.result()
            if isinstance(result, Raised):
                raise result.error
            return result

        cancel, within = _canceller(), True
        claim.on_lost(lambda: cancel() if within else None)
        settled = await self._on_loop(claim, wrap(self._layers, claim, innermost), limit)
        within = False  # what follows only waits, and telling the thread that its claim is lost must not end that
        if settled is not None:
            settle(settled)
        if thread is not None and not thread.done():
            stopped = _cancelled_from_outside() and not claim.lost  # then no one waits for a place
            claim.disown()
            if not stopped:
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([thread])

    async def _on_loop(self, claim: Claim, function: Callable[[], Any], limit: float | None) -> Settlement | None:
        scope = None if limit is None else asyncio.timeout(limit)
        _scope.set(scope)
        try:
            if scope is None:
                result = await _result(function)
            else:
                async with scope:
                    result = await _result(function)
        except BaseException as error:
            if isinstance(error, GeneratorExit):
                raise  # the loop is gone, and with it all who could settle
            if scope is not None and scope.expired() and isinstance(error, TimeoutError):
                error = TimedOut(limit)
            return await _ended(claim, error)
        return _complete(claim, result) if claim.untouched else await _ended(claim, None)

    async def _in_thread(
        self, claim: Claim, function: Callable[[], Any], limit: float | None, settle: Callable[[Settlement], None]
    ) -> None:
        assert self._threads is not None  # noqa: S101  # for the type checker
        call = self._threads.call(function)
        try:
            done, _ = await asyncio.wait([call], timeout=limit)
            if not done:
                # A thread cannot be stopped. The job ends now; its place is free when the function returns.
                if (settled := await _ended(claim, TimedOut(limit))) is not None:
                    settle(settled)
                claim.disown()
                await asyncio.wait([call])
                return
        except asyncio.CancelledError as error:
            if (settled := await _ended(claim, error)) is not None:
                settle(settled)
            claim.disown()
            return
        result = call.result()
        if isinstance(result, Raised):
            settled = await _ended(claim, result.error)
        else:
            settled = _complete(claim, result) if claim.untouched else await _ended(claim, None)
        if settled is not None:
            settle(settled)


def _call_of(task: Task[..., Any], claim: Claim) -> Callable[[], Any]:
    """Make the call of a task's function that a job stands for."""
    try:
        args, kwargs = task.arguments(claim.params)
    except Invalid as error:
        raise Fail(f"the params do not fit the task: {error}", code="invalid_params") from error
    return partial(task.function, *args, **kwargs)


def _call_apart(
    processes: Processes, task: Task[..., Any], claim: Claim, limit: float | None
) -> Callable[[], Awaitable[Any]]:
    """Make a call in a process, which is sent the params as they are and binds them there; here they are only tried."""
    _call_of(task, claim)
    return partial(processes.call, claim, limit)


async def _result(function: Callable[[], Any]) -> Any:
    result = function()
    return await result if hasattr(result, "__await__") else result


async def _ended(claim: Claim, error: BaseException | None) -> Settlement | None:
    """Say how a job ends whose handler raised, settled it itself, or lost it; none if there is nothing left to do."""
    if claim.lost:
        logger.warning("job %r was taken over while it ran: what its handler did must be safe by its fence", claim.id)
        claim.let_go()
        return None
    if isinstance(error, asyncio.CancelledError):
        if _cancelled_from_outside():
            if claim.untouched:
                return released(claim)
            error = None  # it was settled, or is about to be
        else:
            # A handler that raises it by itself has failed: given back uncounted, it would come again for ever.
            error = RuntimeError("the handler raised CancelledError, though no one had cancelled it")
    if not claim.untouched:
        # Race: cancelled as it settled by itself, and the store could not be reached. What it asked for is what it gets
        # (test_what_a_handler_asked_for_as_it_was_cancelled_is_done).
        if error is None and (wish := await claim.wish()) is not None:
            return Settlement(claim, wish)
        await claim.leave(error if isinstance(error, Exception) else None)
        return None
    return completed(claim, None) if error is None else _fail(claim, error)


def _canceller() -> Callable[[], None]:
    """Make what cancels the running task, from any thread."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def cancel() -> None:
        if task is not None:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(task.cancel)

    return cancel


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _complete(claim: Claim, result: Any) -> Settlement:
    logger.debug("job %r of task %r is done", claim.id, claim.task)
    return completed(claim, result)


def _fail(claim: Claim, error: BaseException) -> Settlement:
    if isinstance(error, Snooze | Retry) or (isinstance(error, Reported) and error.meant):  # as it was meant
        logger.info("job %r of task %r: %s", claim.id, claim.task, error)
        return failed(claim, error)
    number, most = claim.attempt, claim.job.max_attempts
    last = number >= most or isinstance(error, Fail) or (isinstance(error, Exited) and not error.retryable)
    logger.warning(
        "job %r of task %r failed, attempt %d of %d, %s: %r",
        *(claim.id, claim.task, number, most, "for good" if last else "to be tried again", error),
        exc_info=None if isinstance(error, Signal | Exited | TimedOut) else error,
    )
    return failed(claim, error)
