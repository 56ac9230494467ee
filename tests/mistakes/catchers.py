"""What is there to notice mistakes: the simulator, the small worlds, the suites. Each says what it noticed, if any."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dibs.testing.sim import Plan, simulate
from dibs.testing.worlds import WORLDS, explore
from tests.mistakes.planting import Mistake, planted

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "tests.mistakes.plugin"
VARIABLE = "DIBS_MISTAKE"
"""Names the mistake that the plugin plants in a pytest of its own."""


class Effort(NamedTuple):
    """How hard to look."""

    seeds: int = 400
    seconds: float = 40.0
    narrowly: bool = False  # a suite: only the tests that are known to be enough


class Catch(NamedTuple):
    """What became of one catcher's attempt."""

    by: str
    seconds: float
    noticed: str | None  # a seed, a world or a test; none: nothing


Catcher = Callable[["Mistake | None", Effort], "str | None"]


def simulator(store: str) -> Catcher:
    """Look for a world that breaks a promise, from the first seed on."""

    def look(mistake: Mistake | None, effort: Effort) -> str | None:
        end = time.monotonic() + effort.seconds
        for seed in range(effort.seeds):
            if not simulate(Plan(seed=seed, store=store)).ok:
                return f"seed {seed}"
            if time.monotonic() > end:
                break
        return None

    return look


def small_worlds(mistake: Mistake | None, effort: Effort) -> str | None:
    """Search the small worlds."""
    return next((world.name for world in WORLDS if not explore(world).ok), None)


def suite(*arguments: str) -> Catcher:
    """Run tests in a process of their own, up to the first that fails."""

    def look(mistake: Mistake | None, effort: Effort) -> str | None:
        command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-x", "-q", "--tb=no"]
        if effort.narrowly and mistake is not None and mistake.tests:
            command += ["-k", mistake.tests]
        done = subprocess.run(
            [*command, "--timeout=20", *arguments],
            cwd=ROOT,
            env={**os.environ, VARIABLE: mistake.name if mistake else ""},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode == 0:
            return None
        found = re.search(r"^(?:FAILED|ERROR) \S*?(test_\w+\.py)::(?:\w+::)?(.+?)(?: - |$)", done.stdout, re.MULTILINE)
        if found is not None:
            return found[2]
        if "Timeout" in done.stdout + done.stderr:
            return "a test that never ends"
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")

    return look


CATCHERS: dict[str, Catcher] = {
    "simulator, memory": simulator("memory"),
    "simulator, sqlite": simulator("sqlite"),
    "store suite": suite(
        "tests/conformance/test_memory.py", "tests/conformance/test_sqlite.py", "-k", "not state_machine"
    ),
    "broker suite": suite(
        "tests/broker",
        "--ignore-glob=*/test_http*.py",
        "-k",
        "not sqlite and not postgres and not mysql and not redis and not waiting",
    ),
    "worker's tests": suite(
        "tests/worker/test_stop.py", "tests/worker/test_worker.py", "tests/app/test_keeper.py", "-k", "not served"
    ),
    "small worlds": small_worlds,
    "PostgreSQL's suite": suite("tests/stores/postgres/test_claiming.py", "tests/conformance/test_postgres.py"),
    "MySQL's suite": suite("tests/stores/mysql/test_claiming.py", "tests/conformance/test_mysql.py"),
    "Redis's tests": suite(
        "tests/conformance/test_redis.py", "tests/stores/redis/test_trouble.py", "tests/stores/redis/test_examine.py"
    ),
    "SQLite's tests": suite("tests/stores/sqlite", "tests/failures/test_libraries.py"),
    "the server's tests": suite("tests/server/test_auth.py", "tests/server/test_bad_input.py"),
    "the cluster's tests": suite("tests/conformance/test_cluster.py", "tests/stores/redis/cluster"),
}
"""From the quickest to the slowest."""

_FITTING = {
    "domain": ["simulator, memory", "simulator, sqlite", "store suite", "broker suite", "small worlds"],
    "memory": ["simulator, memory", "store suite", "small worlds"],
    "sqlite": ["simulator, sqlite", "store suite", "SQLite's tests"],
    "broker": ["simulator, memory", "simulator, sqlite", "broker suite", "small worlds"],
    "keeper": ["simulator, memory", "simulator, sqlite", "worker's tests"],
    "postgres": ["PostgreSQL's suite"],
    "mysql": ["MySQL's suite"],
    "redis": ["Redis's tests"],
    "cluster": ["the cluster's tests"],
    "worker": ["simulator, memory", "simulator, sqlite", "worker's tests"],
    "server": ["the server's tests"],
}


def fitting(mistake: Mistake) -> list[str]:
    """Name the catchers that run the code in which the mistake is."""
    return _FITTING[mistake.where]


def look(name: str, mistake: Mistake | None, effort: Effort = Effort()) -> Catch:  # noqa: B008 - it is immutable
    """Have one catcher look, with a mistake planted or none."""
    began = time.monotonic()
    if mistake is None:
        noticed = CATCHERS[name](None, effort)
    else:
        with planted(mistake):
            noticed = CATCHERS[name](mistake, effort)
    return Catch(name, round(time.monotonic() - began, 2), noticed)
