"""The stores, and on which of them a test runs: parameters, fixtures or name say so, or the folder that it is in."""

from __future__ import annotations

import re
from collections.abc import Iterable

STORES = {
    "memory": "memory",
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "mariadb": "MariaDB",
    "redis": "Redis",
    "cluster": "Cluster",
    "http": "HTTP",
}
"""As tests call them, and as people do; in the order of the table."""

_WORDS = {**{name: name for name in STORES}, "postgres": "postgresql", "mysql": "mariadb", "served": "http"}

_ONLY = {
    "tests/stores/sqlite/": "sqlite",
    "tests/stores/postgres/": "postgresql",
    "tests/stores/mysql/": "mariadb",
    "tests/stores/redis/cluster/": "cluster",  # whose parameters are the makes of its nodes
    "tests/stores/redis/": "redis",
    "tests/faults/test_postgres.py": "postgresql",
    "tests/broker/test_http": "http",
    "tests/server/": "http",  # whose parameters are the stores behind it
}
"""Where all tests are of one store, whatever else they are called after; the first that fits."""

_UNLESS_SAID = {
    "tests/chaos/": "sqlite",
    "tests/races/": "sqlite",
    "tests/app/test_keeper.py": "memory",
    "tests/broker/test_batching.py": "memory",
    "tests/broker/test_line.py": "memory",
    "tests/broker/test_maintenance.py": "memory",
    "tests/unit/test_project.py": "sqlite",  # what is said there of libraries
}


def store_of(node: str, fixtures: Iterable[str] = ()) -> str | None:
    """Tell on which store a collected test runs, by its id and what it asks for; none: it does not say."""
    path, _, rest = node.partition("::")
    name, _, parameters = rest.rpartition("::")[2].partition("[")
    for where, only in _ONLY.items():
        if path.startswith(where):
            return only
    for text in (parameters, " ".join(fixtures), name, path.rpartition("/")[2]):
        for word in re.split(r"[^a-z0-9]+", text.lower()):
            if word in _WORDS:
                return _WORDS[word]
    return next((store for where, store in _UNLESS_SAID.items() if path.startswith(where)), None)
