from pathlib import Path

import pytest

from tests.servers.databases import bare_mysql, bare_postgres


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that has never been migrated."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    return bare_postgres("upgrades") if request.param == "postgresql" else bare_mysql("upgrades")
