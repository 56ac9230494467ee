"""The processes of the demo, and what they report."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter, deque
from contextlib import suppress
from statistics import quantiles
from typing import NamedTuple

from dibs.domain.errors import StoreUnavailable

PLACES = (4, 3, 3)  # workers in each process: ten in all
PORT = 8642
_START_SECONDS = 20.0
_LATELY = 5.0


class Pickup(NamedTuple):
    """How long jobs waited for a worker, in milliseconds, lately."""

    p50: float
    p95: float


class Crew:
    """A server, two producers and ten workers, each in a process that may be killed."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._readers: list[threading.Thread] = []
        self._producers: list[subprocess.Popen[bytes]] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self._claims: Counter[tuple[str, int]] = Counter()
        self._recent: deque[tuple[float, int]] = deque(maxlen=20_000)
        self.enqueued: set[str] = set()
        self.trouble = ""
        self.killed = 0
        self.url = f"http://127.0.0.1:{_free_port()}"

    # Starting and stopping

    def start(self) -> None:
        """Start all of them; the server first, for a producer speaks to it."""
        port = self.url.rpartition(":")[2]
        serve = ["-m", "dibs", "serve", "--store", self._store, "--host", "127.0.0.1", "--port", port, "--no-auth"]
        self._server = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, *serve], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self._wait_for_server()
        self._producers = [self._spawn("produce", self._store), self._spawn("post", self.url)]
        self._workers = [self._spawn_worker(index) for index in range(len(PLACES))]

    def _wait_for_server(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/ready", timeout=1):  # noqa: S310 - our own
                return
            if self._server.poll() is not None:
                break
            time.sleep(0.05)
        self._server.kill()
        said = self._server.communicate()[1].decode(errors="replace").strip()
        raise StoreUnavailable(f"the demo's server did not start: {said[-2000:] or 'it said nothing'}")

    def _spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dibs.demo.roles", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)  # noqa: S603 - our own
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        self._readers.append(reader)
        return process

    def _spawn_worker(self, index: int) -> subprocess.Popen[bytes]:
        return self._spawn("work", self._store, f"worker{index}-{self.killed}", str(PLACES[index]))

    def kill_one(self) -> None:
        """Kill a worker process in the middle of its work, and start another in its place."""
        index = self.killed % len(PLACES)
        self._workers[index].kill()
        self._workers[index].wait()
        self.killed += 1
        self._workers[index] = self._spawn_worker(index)

    def stop(self) -> None:
        """Let all of them finish: producers first, the server last."""
        _stop(self._producers)
        _stop(self._workers)
        for reader in self._readers:
            reader.join()
        _stop([self._server])
        self._server.communicate()

    # What they report

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            news = json.loads(line)
            with self._lock:
                self.enqueued.update(news.get("enqueued", ()))
                self.trouble = news.get("trouble", self.trouble)
                if "claimed" in news:
                    id, fence, pickup = news["claimed"]
                    self._claims[id, fence] += 1
                    self._recent.append((time.monotonic(), pickup))

    @property
    def claims(self) -> int:
        """How many claims there were."""
        with self._lock:
            return self._claims.total()

    @property
    def double_claims(self) -> int:
        """How many claims had a fence that another had before: there must be none."""
        with self._lock:
            return self._claims.total() - len(self._claims)

    def rates(self) -> list[int]:
        """Give the claims of each of the last thirty seconds, the last one last."""
        now = time.monotonic()
        with self._lock:
            buckets = Counter(int(now - at) for at, _ in self._recent)
        return [buckets[age] for age in range(30, 0, -1)]

    def pickup(self) -> Pickup:
        """Say how long jobs waited, over the last five seconds."""
        now = time.monotonic()
        with self._lock:
            recent = [pickup / 1000 for at, pickup in self._recent if now - at < _LATELY]
        if not recent:
            return Pickup(0.0, 0.0)
        cuts = quantiles([*recent, recent[0]], n=20)  # which asks for two at least
        return Pickup(cuts[9], cuts[18])


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    """Give the usual port, or any other if that is taken."""
    for port in (PORT, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise StoreUnavailable("there is no free port on 127.0.0.1")
