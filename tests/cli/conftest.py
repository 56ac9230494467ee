"""Where the commands are tried: a SQLite file, and the same through a server with a key."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Place
from tests.server.process import Serving
from tests.servers.databases import empty_postgres, empty_redis


def served(folder: Path) -> Iterator[Place]:
    """A server in a process of its own, and a key for it."""
    file = Place(folder, f"sqlite:///{folder}/jobs.db")
    file.dibs("migrate")
    [made] = file.json("keys", "create", "--name", "tests", "--scope", "admin", "--rate", "unlimited")
    with Serving(folder) as server:
        yield Place(folder, server.url, made["key"])


@pytest.fixture
def file(tmp_path: Path) -> Place:
    return Place(tmp_path, f"sqlite:///{tmp_path}/jobs.db")


@pytest.fixture(params=["sqlite", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A SQLite file, or a server before it."""
    if request.param == "http":
        yield from served(tmp_path)
    else:
        yield Place(tmp_path, f"sqlite:///{tmp_path}/jobs.db")


@pytest.fixture(params=["postgresql", "redis"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database of the other kinds."""
    return Place(tmp_path, empty_postgres() if request.param == "postgresql" else empty_redis())
