"""Workers and producers that kill themselves, by a real SIGKILL, each at one exact point of its talk with a server.

    python -m tests.failures.victim URL FOLDER

One process for each point, all at once. The trap is in the sockets, and nothing of dibs or of a driver is replaced: who
is to die before a commit dies instead of sending what asks for it; who is to die after it dies as the answer has come,
which no one has read yet.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dibs
from tests.chaos.dying import LEASE, LONG_LEASE, die
from tests.chaos.histories import recording

POINTS: dict[str, tuple[str, str]] = {
    "before-the-enqueue-commits": ("enqueue", "before"),
    "after-the-enqueue-commits": ("enqueue", "after"),
    "before-the-claim-commits": ("claim", "before"),
    "after-the-claim-commits": ("claim", "after"),
    "in-the-handler": ("handler", ""),
    "in-an-extension-before-it-commits": ("extend", "before"),
    "in-an-extension-after-it-commits": ("extend", "after"),
    "before-the-settle-commits": ("settle", "before"),
    "after-the-settle-commits": ("settle", "after"),
}
"""Each is the name of its victim, of its queue, and of its key."""
LETTER = "what-is-enqueued"
"""Params, by which an enqueue is known from all that may be asked before it."""
QUIET = 0.1
"""Seconds: a server that has begun to answer has done all that it was asked in one go."""


class Trap:
    """Springs on the first commit of what has a word in it: as it is sent, or as it is answered.

    Who speaks SQL over several round trips says when it commits; for all others, to ask is to have it done.
    """

    def __init__(self, when: str, commits: bytes) -> None:
        self._when, self._commits = when, commits
        self._word: bytes | None = None
        self._met: socket.socket | None = None
        self._asked: socket.socket | None = None
        for name in ("send", "sendmsg"):
            self._hook(name, self._sends)
        for name in ("recv", "recv_into"):
            self._hook(name, self._receives)

    def arm(self, word: str) -> None:
        self._word = word.encode()

    def _hook(self, name: str, see: Callable[..., Any]) -> None:
        plain = getattr(socket.socket, name)
        setattr(socket.socket, name, lambda sock, *rest: see(plain, sock, *rest))

    def _sends(self, plain: Callable[..., int], sock: socket.socket, data: Any, *rest: Any) -> int:
        sent = b"".join(data) if isinstance(data, list | tuple) else bytes(data)
        if self._word is not None and self._word in sent:
            self._met = sock
        if sock is self._met and self._commits in sent:
            if self._when == "before":
                die()
            self._asked = sock
        return plain(sock, data, *rest)

    def _receives(self, plain: Callable[..., Any], sock: socket.socket, *rest: Any) -> Any:
        got = plain(sock, *rest)
        if sock is self._asked:
            if isinstance(got, bytes) and b"NOSCRIPT" in got:  # Redis has not seen it before, and will be told
                self._asked = None
            else:
                time.sleep(QUIET)
                die()
        return got


async def main(url: str, point: str) -> None:
    step, when = POINTS[point]
    trap = Trap(when, b"COMMIT" if url.startswith("mysql") else b"")
    app = dibs.App(url, reap_every=3600.0, prune_every=3600.0)
    if step == "enqueue":
        trap.arm(LETTER)
        await app.enqueue("t", LETTER, queue=point, idempotency_key=point)
        raise AssertionError(f"outlived {point}")
    if step == "claim":
        trap.arm(point)
    lease = LONG_LEASE if (step, when) == ("settle", "after") else LEASE
    claim = await app.claim(point, queues=[point], lease=lease)
    assert claim is not None
    async with claim:
        if step in {"extend", "settle"}:
            trap.arm(claim.lease_token)
        if step == "handler":
            die()
        if step == "extend":
            await asyncio.sleep(60)  # the keeper walks into it
    raise AssertionError(f"outlived {point}")


def begin(url: str, folder: Path, point: str) -> int:
    """Fork the victim of a point; nothing has been opened yet."""
    pid = os.fork()
    if pid == 0:
        try:
            with recording(folder / f"{point}.jsonl", point):
                asyncio.run(main(url, point))
        finally:
            os._exit(1)
    return pid


if __name__ == "__main__":
    pids = {point: begin(sys.argv[1], Path(sys.argv[2]), point) for point in POINTS}
    ends = {point: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for point, pid in pids.items()}
    print(json.dumps(ends))
