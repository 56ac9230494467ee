"""Stages: a store by its name, with the network before it; or API servers over one, for ``http``."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from soak.cast import Cast, Member
from soak.disks import small_disk
from soak.network import Line
from soak.places import SqliteFile, redis_cluster
from soak.subjects import SUBJECTS, Place, Subject
from tests.servers.keeping import free_port
from tests.servers.proxy import Proxy

NAMES = ("sqlite", "postgresql", "mariadb", "redis", "cluster", "http")
SERVERS, PRODUCERS, WORKERS = 2, 2, 3
OVER = "postgresql"
"""What API servers have their jobs in."""


class Lines:
    """Several proxies that are told the same."""

    def __init__(self, proxies: list[Proxy]) -> None:
        self._proxies = proxies

    @property
    def cuts(self) -> int:
        return sum(proxy.cuts for proxy in self._proxies)

    def pass_on(self) -> None:
        self._each(Proxy.pass_on)

    def delay(self, seconds: float) -> None:
        self._each(lambda proxy: proxy.delay(seconds))

    def silence(self) -> None:
        self._each(Proxy.silence)

    def refuse(self) -> None:
        self._each(Proxy.refuse)

    def reset(self) -> int:
        return sum(proxy.reset() for proxy in self._proxies)

    def cut_after(self, pattern: bytes = b"", times: int = 1) -> None:
        self._each(lambda proxy: proxy.cut_after(pattern, times))

    def _each(self, do: Callable[[Proxy], object]) -> None:
        for proxy in self._proxies:
            do(proxy)


@dataclass
class Stage:
    """Where the work is done."""

    name: str
    place: Place
    urls: list[str]
    """What producers and workers are given, in turns."""
    line: Line | None = None
    subject: Subject | None = None
    """The same as the place, if it is a server that can be stopped and started."""
    ports: list[int] = field(default_factory=list)
    """Of API servers over the place."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Faults that could happen here, were it not for the machine; and why they cannot."""

    @property
    def straight(self) -> str:
        """The URL of the store itself, around every proxy."""
        return self.place.url + self.place.options

    def cast(self, folder: Path, rate: float) -> Cast:
        """Name all processes; none is started yet."""

        def url(number: int) -> str:
            return self.urls[number % len(self.urls)]

        each = rate / PRODUCERS
        return Cast(
            [Member("produce", f"producer-{n + 1}", folder, url(n), each) for n in range(PRODUCERS)],
            [Member("work", f"worker-{n + 1}", folder, url(n)) for n in range(WORKERS)],
            [Member("serve", f"server-{n + 1}", folder, self.straight, port) for n, port in enumerate(self.ports)],
        )

    async def serving(self) -> None:
        """Wait until every API server answers."""
        end = time.monotonic() + 60
        for port in self.ports:
            while not await asyncio.to_thread(_answers, port):
                if time.monotonic() > end:
                    raise TimeoutError(f"the API server on port {port} does not answer")
                await asyncio.sleep(0.05)


def _answers(port: int) -> bool:
    with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


@contextmanager
def enter(name: str, folder: Path) -> Iterator[Stage]:
    """Set up a stage; its servers are its own, and are gone afterwards."""
    with ExitStack() as stack:
        if name == "cluster":
            six = stack.enter_context(redis_cluster(folder))
            yield Stage(name, six, [six.url + six.options])
            return
        disk = stack.enter_context(small_disk())
        left_out = {} if disk else {"disk_full": "no file system may be mounted here; run it as root"}
        if name == "sqlite":
            file = SqliteFile(folder, disk)
            yield Stage(name, file, [file.url], left_out=left_out)
            return
        subject = stack.enter_context(SUBJECTS[OVER if name == "http" else name](disk))
        if name == "http":
            ports = [free_port() for _ in range(SERVERS)]
            proxies = [stack.enter_context(Proxy("127.0.0.1", port)) for port in ports]
            urls = [f"http://127.0.0.1:{proxy.port}" for proxy in proxies]
            yield Stage(name, subject, urls, Lines(proxies), subject, ports, left_out)
        else:
            proxy = stack.enter_context(Proxy.of(subject.url))
            url = proxy.through(subject.url) + subject.options
            yield Stage(name, subject, [url], proxy, subject, left_out=left_out)
