"""The server process of the suite, seen from the tests: a clock that moves it, and a broker that talks to it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

from dibs.broker.http import HttpBroker, Remote
from dibs.clock import FakeClock
from dibs.domain.retry import Duration, micros
from dibs.domain.settings import Config

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0


class Process:
    """A server that serves the store of one test after the other."""

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, str(ROOT / "tests" / "broker" / "served.py")]
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            assert self._process.wait(PATIENCE) == 0
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def tell(self, what: str, **details: Any) -> Any:
        """Have the server do something, and wait until it is done."""
        # Not kept open: others may take longer, between two tests, than the server leaves an idle connection alone.
        with closing(HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE)) as http:
            http.request("POST", f"/test/{what}", json.dumps(details))
            response = http.getresponse()
            body = response.read()
        assert response.status == 200, body
        return json.loads(body)


class ServedClock(FakeClock):
    """A clock that moves the server's along with itself."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def advance(self, duration: Duration) -> None:
        now = self._process.tell("advance", us=micros(duration))
        super().advance(duration)
        assert self.now() == now


class ServedBroker(HttpBroker):
    """The broker over HTTP. Servers look after their stores by themselves; that of the suite, when it is told to."""

    def __init__(self, process: Process, store: str, clock: FakeClock, config: Config) -> None:
        self.process = process
        self.key: str = process.tell("begin", url=store)
        self.remote = Remote(process.url, self.key, clock)
        super().__init__(self.remote, clock, config)

    async def maintain(self) -> None:
        self.process.tell("maintain", number=1)
        try:
            await asyncio.Event().wait()
        finally:
            self.process.tell("rest")
