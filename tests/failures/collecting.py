"""Asks pytest which of the named tests there are, and on which stores each of them runs.

python -m tests.failures.collecting FILE...    as JSON: for each test the file that defines it, and its stores
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.failures.classes import FAILURES, SUITES, Failure
from tests.failures.stores import STORES, store_of

ROOT = Path(__file__).resolve().parents[2]


class Found:
    """Tests by the file that runs them and their name: where each is defined, and its stores."""

    def __init__(self, tests: dict[str, Any]) -> None:
        self._tests = tests

    def stores(self, test: str) -> list[str]:
        """Tell on which stores a named test runs; none: there is no such test."""
        told = {store for each in self._places(test) for store in self._tests.get(each, {"stores": []})["stores"]}
        return [store for store in STORES if store in told]

    def defined(self, test: str) -> str:
        """Tell which file has its code."""
        return next(str(self._tests[each]["defined"]) for each in self._places(test) if each in self._tests)

    def holes(self, failures: Iterable[Failure] = FAILURES) -> list[str]:
        """Say what is missing, or said wrongly."""
        said: list[str] = []
        for failure in failures:
            ran = {test: self.stores(test) for test in failure.tests}
            said += [f"{failure.name}: {test} does not run on any store" for test, on in ran.items() if not on]
            covered = {store for on in ran.values() for store in on}
            for store in STORES:
                if store not in covered and store not in failure.nowhere:
                    said.append(f"{failure.name}: nothing provokes it on {STORES[store]}")
                if store in covered and store in failure.nowhere:
                    said.append(f"{failure.name}: cannot happen on {STORES[store]}, but is provoked there")
        return said

    @staticmethod
    def _places(test: str) -> list[str]:
        where, _, name = test.partition("::")
        return [f"{file}::{name}" for file in SUITES.get(where, [where])]


def collect(failures: Iterable[Failure] = FAILURES) -> Found:
    """Collect the files that have the named tests, in a process of its own."""
    files = sorted({file for failure in failures for file in failure.files() if (ROOT / file).exists()})
    command = [sys.executable, "-m", "tests.failures.collecting", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the tests could not be collected:\n{done.stdout}\n{done.stderr}")
    return Found(json.loads(done.stdout.splitlines()[-1]))


class _Collector:
    """A plugin that takes down what was collected; what is not run at every change does not count."""

    def __init__(self) -> None:
        self.tests: dict[str, Any] = {}
        self._names = {test.partition("::")[2] for failure in FAILURES for test in failure.tests}

    def pytest_pycollect_makeitem(self, name: str) -> list[pytest.Item] | None:
        """Pass by all other tests: most of the time would go to making their cases."""
        return [] if name.startswith("test_") and name not in self._names else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if not isinstance(item, pytest.Function) or item.get_closest_marker("long"):
                continue
            store = store_of(item.nodeid, item.fixturenames)
            if store is None:
                continue
            key = f"{item.nodeid.partition('::')[0]}::{item.originalname}"
            defined = Path(item.function.__code__.co_filename).relative_to(ROOT)
            test = self.tests.setdefault(key, {"defined": str(defined), "stores": []})
            if store not in test["stores"]:
                test["stores"].append(store)


if __name__ == "__main__":
    collector = _Collector()
    quietly = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-p", "no:xdist"]
    status = pytest.main([*quietly, *sys.argv[1:]], plugins=[collector])
    print(json.dumps(collector.tests))
    sys.exit(status)
