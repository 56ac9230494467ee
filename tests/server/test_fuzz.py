"""A short run of ``./dev fuzz``: the long one has the same server, the same checks, and more calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)  # ten seconds of work, if it has a core to itself
def test_the_server_keeps_to_its_document() -> None:
    command = [sys.executable, "tools/fuzz.py", "--calls", "1", "--examples", "1", "--phases", "fuzzing,stateful"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing found" in done.stdout
    for who in ("no key", "produce", "work", "read", "admin"):
        assert f"seed 1, {who}" in done.stdout
