"""Every example runs by itself, says something, and leaves no warning behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.databases import bare_postgres

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    as_tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    how = as_tests if example.stem.startswith("test_") else []
    command = [sys.executable, "-W", "error", *how, str(example)]
    environment = dict(os.environ)
    if "DATABASE_URL" in example.read_text():
        environment["DATABASE_URL"] = bare_postgres("examples")
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout
    assert list(tmp_path.iterdir()) == []
