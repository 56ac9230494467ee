"""Small disks: file systems in memory, where one may mount them (as root), which can be filled and emptied."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

ROOM = 2**31
"""Bytes that one may take while it is not full: no more of them are taken than are used."""


class Disk:
    """As large as it is told to be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self) -> bool:
        """Say whether that was allowed."""
        return self._mount("-t", "tmpfs", "-o", f"size={ROOM},mode=0755", "dibs-soak")

    def unmount(self) -> None:
        subprocess.run(["umount", self.folder], check=True)

    @asynccontextmanager
    async def full(self) -> AsyncIterator[None]:
        """Let there be no room."""
        await asyncio.to_thread(self._fill)
        try:
            yield
        finally:
            if not await asyncio.to_thread(self._mount, "-o", f"remount,size={ROOM}"):
                raise OSError(f"{self.folder} could not be given room")

    def _fill(self) -> None:
        for _ in range(50):  # what is written meanwhile does not fit, and is measured again
            if self._mount("-o", f"remount,size={self._used()}"):
                return
        raise OSError(f"{self.folder} could not be filled")

    def _used(self) -> int:
        found = os.statvfs(self.folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def _mount(self, *options: str) -> bool:
        with suppress(FileNotFoundError):  # as where there is no such program
            return subprocess.run(["mount", *options, self.folder], capture_output=True, check=False).returncode == 0
        return False


@contextmanager
def small_disk() -> Iterator[Disk | None]:
    """Give one, or none where that is not allowed. Anyone may look into it: servers run as another user."""
    with tempfile.TemporaryDirectory(prefix="dibs-soak-disk-") as folder:
        disk = Disk(Path(folder))
        if not disk.mount():
            yield None
            return
        disk.folder.chmod(0o755)
        try:
            yield disk
        finally:
            disk.unmount()


def folder_of(disk: Disk | None) -> Path | None:
    return None if disk is None else disk.folder
