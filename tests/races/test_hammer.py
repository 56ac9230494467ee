"""Eight processes hammer one file: short here, a minute by ``python tools/hammer.py``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.chaos.crew import ROOT


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_hammer() -> None:
    command = [sys.executable, "tools/hammer.py", "--processes", "8", "--seconds", "6", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=140, check=False)
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout)

    assert summary["trouble"] == []
    assert summary["missing"] == []
    assert summary["largest_wal_mib"] < 64
    assert all(summary["checks"].values()), f"{summary['verify']}\n{summary['histories']}"
    assert done.returncode == 0
    # It was a hammering: every role came to do what it is there for.
    assert {"enqueue", "claim", "complete", "fail", "release", "order", "pause", "look"} <= set(summary["done"])
    assert {"lease_lost", "wrong_state"} <= set(summary["refused"])
    assert summary["jobs"] > 100
