"""A place for jobs of each kind that processes can share, and processes that do what they are told."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import dibs
from tests.chaos.crew import Crew, hire
from tests.server.process import Serving
from tests.servers.databases import empty_cluster, empty_mysql, empty_postgres, empty_redis

SERVERS = {"postgresql": empty_postgres, "mysql": empty_mysql, "redis": empty_redis, "cluster": empty_cluster}
SHARED = ["sqlite", "served", *SERVERS]
QUICK = dibs.Backoff(base=0.01, cap=0.01)


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
    elif request.param == "served":
        with Serving(tmp_path, "--no-auth") as serving:
            yield serving.url
    else:
        yield SERVERS[request.param]()


@pytest.fixture
def kept(url: str, tmp_path: Path) -> str:
    """Where the jobs are in the end: behind a server, its file."""
    return f"sqlite:///{tmp_path / 'jobs.db'}" if url.startswith("http:") else url


@pytest.fixture
async def app(url: str) -> AsyncIterator[dibs.App]:
    async with dibs.App(url, retry=QUICK, reap_every=0.2) as app:
        yield app


@pytest.fixture
def crew() -> Iterator[Crew]:
    with hire() as start:
        yield start
