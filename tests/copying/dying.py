"""A copy that kills itself: ``python -m tests.copying.dying FROM TO CALL NUMBER``, where the target is called so.

CALL is ``restore``: the number-th part was put down, and not noted; or ``put``: the number-th document was written; or
``audit``: the number-th page of the target was read, which is done to compare it.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from dibs.broker.connect import open_store
from dibs.broker.copying import Copy
from dibs.clock import Clock


def kill_at(store: Any, call: str, number: int) -> None:
    """Let the process die by its own hand once that was done so often."""
    left, does = number, getattr(store, call)

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal left
        answer = await does(*args, **options)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(store, call, counted)


async def main(from_: str, to: str, call: str, number: str) -> None:
    clock = Clock()
    source, target = open_store(from_, clock), open_store(to, clock)
    kill_at(target, call, int(number))
    await source.open()
    await target.open()
    await Copy(source, target, clock).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
