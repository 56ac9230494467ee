from pathlib import Path

import pytest

from tests.servers.databases import bare_mysql, bare_postgres, bare_redis


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that has never been migrated, of those that have a schema."""
    return store_of(request.param, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb", "redis"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Any store that is shared."""
    return store_of(request.param, tmp_path)


def store_of(kind: str, folder: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder / 'jobs.db'}"
    return {"postgresql": bare_postgres, "mariadb": bare_mysql, "redis": bare_redis}[kind]("upgrades")
