"""Producers and workers of two versions of dibs on one store, in processes of their own, while that is migrated."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from soak.cast import Member
from soak.seen import Seen
from tests.chaos.crew import PATIENCE, ROOT
from tests.upgrades.versions import environment

RATE = 30


class Scene:
    """Who is there, and what was seen of them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self._folder = url, folder
        self._members: dict[str, Member] = {}
        self._seen = Seen(folder)

    def worker(self, name: str, source: Path) -> Member:
        return self._begin(name, Member("work", name, self._folder, self.url, source=source))

    def producer(self, name: str, source: Path) -> Member:
        return self._begin(name, Member("produce", name, self._folder, self.url, RATE, source=source))

    def _begin(self, name: str, member: Member) -> Member:
        self._members[name] = member
        member.start()
        return member

    def until(self, what: str, holds: Callable[[Seen], bool], *, lost: tuple[str, ...] = ()) -> None:
        """Wait for something to be seen; no one may end by themselves meanwhile, but for some."""
        end = time.monotonic() + PATIENCE
        while not holds(self._seen):
            for name, member in self._members.items():
                assert name in lost or (gone := member.gone()) is None, gone
            assert time.monotonic() < end, f"waited in vain until {what}: {self.said()}"
            time.sleep(0.02)
            self._seen.look()

    def until_at_work(self, *names: str, lost: tuple[str, ...] = ()) -> None:
        """Wait until each of them has done something that it began after this."""
        now = time.monotonic() + 0.1
        at_work: Callable[[Seen], bool] = lambda seen: all(seen.last.get(name, 0.0) > now for name in names)  # noqa: E731
        self.until(f"{', '.join(names)} are at work", at_work, lost=lost)

    def until_all_have_ended(self, source: Path) -> None:
        self._ask(source)

    def until_gone(self, name: str) -> str:
        """Wait until one has ended by itself; say how."""
        self.until(f"{name} has ended", lambda _: self._members[name].gone() is not None, lost=tuple(self._members))
        return self._members[name].gone() or ""

    def kill_and_restart(self, name: str) -> None:
        """End one as a power cut would, and have it begin anew."""
        self._members[name].kill()
        self._members[name].start()

    def end(self, *names: str) -> None:
        for name in names:
            assert (wrong := self._members[name].end()) is None, wrong

    def said(self) -> str:
        return "\n".join(f"{name}: {member.said()}" for name, member in self._members.items())

    def judge(self, source: Path) -> None:
        """Compare what was told and done with what the store says, in the words of one version."""
        self._ask(source, str(self._folder))

    def _ask(self, source: Path, *more: str) -> None:
        command = [sys.executable, "-m", "tests.upgrades.verdict", self.url, *more]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(source), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def kill(self) -> None:
        for member in self._members.values():
            member.kill()


@contextmanager
def scene(url: str, folder: Path) -> Iterator[Scene]:
    made = Scene(url, folder)
    try:
        yield made
    finally:
        made.kill()
