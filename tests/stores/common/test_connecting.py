"""Connecting in time: what becomes of a connection when no one waits for it any more."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from dibs.stores.common.connecting import in_time


async def test_one_that_fails_in_the_turn_in_which_it_is_given_up_is_not_complained_of() -> None:
    """Very many are, where a server that is full refuses a crowd: each was a traceback on the user's terminal."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    refused = asyncio.Event()

    async def connect() -> None:
        await refused.wait()
        raise ConnectionRefusedError("there are too many already")

    waiting = asyncio.create_task(in_time(connect(), 10, lambda: None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # it waits now
    refused.set()
    await asyncio.sleep(0)  # it has failed, and who waits has not heard yet
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    del waiting
    gc.collect()

    assert complaints == []
