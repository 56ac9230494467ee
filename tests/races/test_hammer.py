"""Many processes hammer one store: short here, longer by ``./dev hammer``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.chaos.crew import ROOT
from tests.servers.databases import bare_mysql, bare_postgres, empty_cluster, empty_redis


def hammer(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "tools/hammer.py", *arguments, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=140, check=False)
    assert done.stdout, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    assert summary["trouble"] == []
    assert summary["missing"] == []
    assert all(summary["checks"].values()), f"{summary['verify']}\n{summary['histories']}"
    assert done.returncode == 0
    # It was a hammering: every role came to do what it is there for.
    assert {"enqueue", "claim", "complete", "fail", "release", "order", "pause", "look"} <= set(summary["done"])
    assert {"lease_lost", "wrong_state"} <= set(summary["refused"])
    assert summary["jobs"] > 100
    assert summary["claimed_twice"] == 0
    return summary


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_hammer() -> None:
    assert hammer("--processes", "8", "--seconds", "6")["largest_wal_mib"] < 64


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_hammer_postgres() -> None:
    """Ten processes: no deadlock reaches anyone, and no claim is handed out twice."""
    url = bare_postgres("hammer")
    assert hammer("--store", url, "--processes", "10", "--claims", "400", "--seconds", "90")["claims"] >= 400


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_hammer_mysql() -> None:
    """Eight processes: no deadlock reaches anyone, and no claim is handed out twice."""
    url = bare_mysql("hammer")
    assert hammer("--store", url, "--processes", "8", "--claims", "400", "--seconds", "90")["claims"] >= 400


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_hammer_redis() -> None:
    """Eight processes: no script meets another's half-done work, and no claim is handed out twice."""
    url = empty_redis()
    assert hammer("--store", url, "--processes", "8", "--claims", "1600", "--seconds", "90")["claims"] >= 1600


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_hammer_cluster() -> None:
    """Six processes on three masters, each queue in several parts."""
    url = f"{empty_cluster()}&partitions=3"
    assert hammer("--store", url, "--processes", "6", "--claims", "300", "--seconds", "90")["claims"] >= 300


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_hammer_until_so_many_claims_were_made() -> None:
    assert hammer("--processes", "3", "--claims", "900", "--seconds", "100")["claims"] >= 900
