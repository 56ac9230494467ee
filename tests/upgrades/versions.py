"""Versions of dibs beside this one, each in a folder that processes have it from."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.chaos.crew import ROOT

THIS = ROOT / "src"
STORES = ("sqlite", "postgres", "mysql")

ADDS = """\
-- 0002_later.sql · breaking: no · locks: each table for a moment
CREATE TABLE dibs_later (id integer PRIMARY KEY);
ALTER TABLE dibs_job ADD COLUMN later integer;
ALTER TABLE dibs_event ADD COLUMN later integer;
CREATE INDEX dibs_job_later ON dibs_job (later);
"""
"""As MariaDB has it the third would not be safe to repeat; no one cuts it here."""
RENAMES = """\
-- 0002_anew.breaking.sql · breaking: yes · locks: the table of jobs for a moment
ALTER TABLE dibs_job RENAME TO dibs_job_anew;
"""


def next_one(folder: Path) -> Path:
    """Make the version after this one, which has added to the schema, and notes what it has written to."""
    source = _copy(folder / "next" / "src")
    for store in STORES:
        place = _store(source, store)
        (place / "migrations" / "0002_later.sql").write_text(ADDS)
        for file in place.glob("sql/*.sql"):
            file.write_text(re.sub(r"(UPDATE dibs_job\b[^=]*? SET)\s", r"\1 later = 2, ", file.read_text()))
    return source


def breaking_one(folder: Path) -> Path:
    """Make another version after this one, which keeps jobs elsewhere."""
    source = _copy(folder / "breaking" / "src")
    for store in STORES:
        place = _store(source, store)
        for file in (*place.glob("*.py"), *place.glob("sql/*.sql")):
            file.write_text(_renamed(file.read_text()))
        step = RENAMES
        if store == "mysql":  # elsewhere a view goes along
            made = (place / "migrations" / "0001_initial.sql").read_text()
            [view] = re.findall(r"^CREATE OR REPLACE .*? VIEW .*?;\n", made, re.MULTILINE | re.DOTALL)
            step += _renamed(view)
        (place / "migrations" / "0002_anew.breaking.sql").write_text(step)
    return source


def of_commit(commit: str, folder: Path) -> Path | None:
    """Take a version from the history; none if that does not go back so far."""
    command = ["git", "archive", "--format=tar", commit, "src"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        return None
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder / commit, filter="data")
    return folder / commit / "src"


def run(source: Path, *arguments: str, status: int = 0) -> str:
    """Run a command of a version; give what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "dibs", *arguments],
        cwd=ROOT,
        env=environment(source),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source)}


def _copy(source: Path) -> Path:
    shutil.copytree(THIS / "dibs", source / "dibs", ignore=shutil.ignore_patterns("__pycache__"))
    return source


def _store(source: Path, store: str) -> Path:
    return source / "dibs" / "stores" / store


def _renamed(text: str) -> str:
    return re.sub(r"\bdibs_job\b", "dibs_job_anew", text)
