"""Idle workers, a process for each: ``python -m bench.crowd URL WORKERS``. They end when it may, or are killed with it.

They are forked of one that has imported all that they need: a thousand interpreters that were started one by one would
keep a small machine busy for minutes, and its memory would not hold them.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import sys
import traceback

import dibs

POLL_EVERY = 5.0
"""Seconds: what so many workers would be set to. Each second, a thousand of them keep a small machine busy by looking,
and one that is busy cannot show what else they ask."""
PR_SET_PDEATHSIG = 1


def _worker(url: str, name: str) -> dibs.Worker:
    app = dibs.App(url, poll_every=POLL_EVERY)

    @app.task
    async def noop() -> None: ...

    return dibs.Worker(app, worker_id=name)


def crowd(url: str, workers: int) -> None:
    logging.getLogger("dibs").setLevel(logging.CRITICAL)  # that a server was restarted is known
    asyncio.run(_rehearse(url))
    gc.freeze()  # what is there now is never looked at, and so never copied
    parent = os.getpid()
    children = [_forked(url, f"crowd-{parent}-{number}", parent) for number in range(workers)]
    sys.stdin.read()  # until it is closed
    for child in children:
        os.kill(child, signal.SIGTERM)
    failed = [status for child in children if (status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))]
    sys.exit(f"{len(failed)} of them failed, with {set(failed)}" if failed else None)


async def _rehearse(url: str) -> None:
    """Be a worker for a moment, and so import what all need."""
    worker = _worker(url, f"first-{os.getpid()}")
    async with worker.app:
        await worker.run(until_idle=True)


def _forked(url: str, name: str, parent: int) -> int:
    if child := os.fork():
        return child
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # whoever kills the first kills all
    if os.getppid() != parent:  # killed before that was said
        os._exit(1)
    os.close(0)
    try:
        _worker(url, name).main()
    except BaseException:  # noqa: BLE001 - told, and in no case gone on with what the first process does
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    crowd(sys.argv[1], int(sys.argv[2]))
