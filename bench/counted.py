"""``dibs serve`` with a count of the claims that it makes of its store: ``python -m bench.counted FILE serve …``."""

from __future__ import annotations

import mmap
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dibs.runtime
from dibs.broker.connect import open_store
from dibs.cli import main
from dibs.clock import Clock
from dibs.domain.job import ClaimRequest, Job


class Counted:
    """A store that puts down in a file how many claims were asked of it, however many at a time."""

    def __init__(self, store: Any, file: Path) -> None:
        self._store, self._claims = store, 0
        file.write_bytes(bytes(8))
        with file.open("r+b") as opened:
            self._count = mmap.mmap(opened.fileno(), 8)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[list[Job]]:
        self._claims += len(requests)
        self._count[:] = struct.pack("<Q", self._claims)
        answers: list[list[Job]] = await self._store.claim(requests)
        return answers


def count_of(file: Path) -> int:
    """Read the count from another process."""
    number: int = struct.unpack("<Q", file.read_bytes())[0]
    return number


def serve(file: Path, arguments: list[str]) -> None:
    def counted(url: str, clock: Clock) -> Any:
        return Counted(open_store(url, clock), file)

    dibs.runtime.open_store = counted  # type: ignore[attr-defined]
    main(arguments)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
