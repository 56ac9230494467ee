"""One SQLite in a process: a second one would undo the locks of the first, on the same file."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.crew import ROOT

WORK = """
import pathlib, sys
import dibs
import dibs.cli, dibs.contrib.otel, dibs.server, dibs.testing
app = dibs.App(sys.argv[1])
@app.task
def double(n: int) -> int:
    return 2 * n
with app.sync.batch() as batch:
    job = batch.add(double, 21) if hasattr(batch, "add") else double.sync.enqueue(21)
dibs.Worker(app).main(until_idle=True)
assert app.sync.verify().ok
"""
SERVE = """
import sys
from dibs.server import asgi
import dibs
app = dibs.App(sys.argv[1])
asgi(app)
app.sync.enqueue("t")
assert app.sync.counts().pending == 1
"""
LOOK = """
assert "apsw" in sys.modules, "nothing was opened"
found = [name for name in ("sqlite3", "_sqlite3", "pysqlite2", "pysqlite3") if name in sys.modules]
maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
found += sorted({line.split()[-1] for line in maps.splitlines() if "sqlite3" in line.rpartition("/")[2]} - {sys.argv[1]})
print(found)
"""


@pytest.mark.parametrize("script", [pytest.param(WORK, id="sqlite"), pytest.param(SERVE, id="served")])
def test_there_is_one_sqlite_in_a_process(script: str, tmp_path: Path) -> None:
    """After all that a worker does, or a server: the standard library's was not loaded, nor one of the system."""
    command = [sys.executable, "-c", script + LOOK, f"sqlite:///{tmp_path / 'jobs.db'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
