from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.crew import Crew, hire


@pytest.fixture
def crew() -> Iterator[Crew]:
    with hire() as start:
        yield start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"
