"""Connecting, but only for so long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def is_asked() -> bool:
    """Say whether a cancellation that was just met was asked for by anyone; if not, it is a failure.

    Race: drivers keep time limits by cancelling, and one that ends as something else does gets out. Seen while a
    network was silent: the caller, who could not be cancelled, was (test_work_goes_on).
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def in_time(connecting: Coroutine[Any, Any, Any], seconds: float, close: Callable[[], None]) -> None:
    """Wait for a connection; in a task of its own, which can be cancelled whoever waits for it."""
    task = asyncio.ensure_future(connecting)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            # Race: connected in this very turn of the loop. A driver may then go on, cancelled or not, so whatever it
            # ends with is closed (test_a_connection_that_is_given_up_half_way_is_closed).
            task.add_done_callback(lambda done: _given_up(done, close))
            task.cancel()
        elif not task.cancelled():
            # Race: it failed in the turn in which its caller was cancelled, who does not ask why
            # (test_one_that_fails_in_the_turn_in_which_it_is_given_up_is_not_complained_of).
            task.exception()
    if not task.done():
        raise TimeoutError
    task.result()


def _given_up(done: asyncio.Future[Any], close: Callable[[], None]) -> None:
    if not done.cancelled():
        done.exception()
    close()
