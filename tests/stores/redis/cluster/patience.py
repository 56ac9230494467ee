"""Patience: what a worker has with a cluster that is busy with itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from dibs.domain.errors import StoreUnavailable


async def again(call: Callable[[], Awaitable[Any]], seconds: float = 30) -> Any:
    """Ask until it is answered, as a worker does."""
    end = time.monotonic() + seconds
    while True:
        try:
            return await call()
        except StoreUnavailable:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.05)
