"""One SQLite in a process: a second one would undo the locks of the first, on the same file."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dibs
from tests.chaos.crew import ROOT
from tests.server.process import Serving

LOOK = """
    assert "apsw" in sys.modules, "nothing was opened"
    print("loaded:", [name for name in ("sqlite3", "_sqlite3", "pysqlite3") if name in sys.modules])
"""
WORK = f"""
import sys
import dibs, dibs.cli, dibs.testing
app = dibs.App(sys.argv[1])
@app.task
def double(n: int) -> int:
    return 2 * n
double.sync.enqueue(21)
dibs.Worker(app).main(until_idle=True)
if app.sync.verify().ok and app.sync.counts().completed == 1:
{LOOK}
"""
SERVE = f"""
import sys
from dibs.cli import main
try:
    main()
finally:
{LOOK}
"""


def work(folder: Path) -> str:
    """Do all that a worker does."""
    command = [sys.executable, "-c", WORK, f"sqlite:///{folder / 'jobs.db'}"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


def serve(folder: Path) -> str:
    """Do what a server does."""
    with Serving(folder, "--no-auth", code=SERVE) as serving:
        app = dibs.App(serving.url)
        app.sync.enqueue("t")
        assert app.sync.claim("w") is not None
        app.sync.close()
        serving.end()
        return "".join(serving.said)


@pytest.mark.parametrize("run", [work, serve], ids=["sqlite", "served"])
def test_there_is_one_sqlite_in_a_process(run: Callable[[Path], str], tmp_path: Path) -> None:
    """After all that it has done, no one has loaded the standard library's."""
    assert run(tmp_path).splitlines()[-1] == "loaded: []"
