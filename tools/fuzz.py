"""Call a real server as its OpenAPI document says it may be called, and as it says it may not: ``./dev fuzz``.

Schemathesis draws the calls: without a key, and with a key of each scope. None may be answered by a 5xx, by a status, a
media type or a body that the document does not promise. How many calls there were is what the server has counted.

Left out is that whatever fits the document must be taken: a cursor, a claim or a choice between two fields cannot be
described there, and a refusal of them is a 400 that names the field.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import schemathesis
from schemathesis.engine import events, from_schema

from dibs import App
from dibs.server import keys

# Waiting is not what is tried here: a claim does not wait, and a stream ends after its first event.
SERVER = """
import os, sys, threading

import msgspec
from dibs.server import polling
from dibs.server.routes import events

events.LONGEST = 0.0
claim = polling.claim


async def at_once(call, ask):
    return await claim(call, msgspec.structs.replace(ask, wait=0))


polling.claim = at_once
# Whoever started it holds the other end: when that is killed, this ends too.
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
from dibs.cli import main
main()
"""
PHASES = ("examples", "coverage", "fuzzing", "stateful")
COUNTED = re.compile(r'dibs_http_requests_total{[^}]*status="(\d+)"} ([\d.]+)')


class Server:
    """``dibs serve`` on a throw-away SQLite file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = f"sqlite:///{folder / 'jobs.db'}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, "serve", "--port", "0", "--store", self._store],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "server.log").open("w"),
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if started := re.search(r"http://\S+", line):
                self.url = started[0]
                break
        else:
            raise SystemExit((folder / "server.log").read_text())
        self.admin = (folder / "dibs-admin.key").read_text().strip()

    async def keys(self) -> dict[str | None, str | None]:
        """Make a key of each scope."""
        made: dict[str | None, str | None] = {None: None}
        async with App(self._store) as app:
            broker, clock = app.runtime.broker(), app.runtime.clock
            for scope in keys.SCOPES:
                made[scope] = (await keys.create(broker, clock, name=scope, scopes=[scope], rate=None)).text
        return made

    def answered(self) -> Counter[int]:
        """How many requests were answered, by status."""
        request = urllib.request.Request(f"{self.url}/metrics", headers={"X-API-Key": self.admin})
        with urllib.request.urlopen(request) as response:
            text = response.read().decode()
        counts: Counter[int] = Counter()
        for status, number in COUNTED.findall(text):
            counts[int(status)] += int(float(number))
        return counts

    def stop(self) -> str:
        """Stop it; give what it complained of."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        return (self._folder / "server.log").read_text()


def fuzz(url: str, key: str | None, *, examples: int, phases: Sequence[str], seed: int) -> list[str]:
    """Let schemathesis call the server once through; give what it found."""
    settings = {
        "seed": seed,
        "headers": {} if key is None else {"X-API-Key": key},
        "continue-on-failure": True,
        "suppress-health-check": ["all"],
        "checks": {"positive_data_acceptance": {"enabled": False}},
        "phases": {name: {"enabled": name in phases} for name in PHASES},
        "generation": {
            "max-examples": examples,
            "database": "none",
            "no-shrink": True,
            "with-security-parameters": False,  # the key is given; a second beside it is refused before all else
        },
    }
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", config=schemathesis.Config.from_dict(settings))
    found: list[str] = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            for id, checks in event.recorder.checks.items():
                case = event.recorder.cases[id].value
                found += [
                    f"{case.operation.label}: {check.failure_info.failure}\n{check.failure_info.code_sample}"
                    for check in checks
                    if check.failure_info is not None
                ]
        elif isinstance(event, events.NonFatalError | events.FatalError):
            found.append(f"{event!r}: {getattr(event, 'value', None) or getattr(event, 'exception', None)}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=20_000, help="how many calls, at the least (20000)")
    parser.add_argument("--examples", type=int, default=40, help="of each call, in one pass (40)")
    parser.add_argument("--phases", default=",".join(PHASES), help="of schemathesis: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    found: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dibs-fuzz-") as name:
        folder = Path(name)
        server = Server(folder)
        try:
            callers = asyncio.run(server.keys())
            seed = asked.seed
            while not found and server.answered().total() < asked.calls:
                for scope, key in callers.items():
                    before = server.answered()
                    found += fuzz(server.url, key, examples=asked.examples, phases=asked.phases.split(","), seed=seed)
                    calls = server.answered() - before
                    print(f"seed {seed}, {scope or 'no key':8} {json.dumps(dict(sorted(calls.items())))}", flush=True)
                seed += 1
            answered = server.answered()
        finally:
            complaints = server.stop()
    print(*dict.fromkeys(found), sep="\n")
    worst = [status for status in answered if status >= 500]
    if "Traceback" in complaints or worst:
        found.append(complaints)
        print(f"{worst or ''}\n{complaints}")
    print(f"{answered.total():,} calls in {time.monotonic() - began:.0f} s, {'BROKEN' if found else 'nothing found'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
