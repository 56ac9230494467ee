"""``dibs verify`` and ``dibs migrate`` as a user meets them: real processes, exit codes, sentences."""

import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import dibs


def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "DIBS_STORE"}
    command = [sys.executable, "-c", "from dibs.cli import main; main()", *args]
    return subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, timeout=50)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    with dibs.App(f"sqlite:///{path}").sync as app:
        app.enqueue_many([dibs.NewJob("t", {"n": n}) for n in range(5)])
        with app.claim("w"):  # type: ignore[union-attr]
            pass
    return path


def test_verify_says_that_every_promise_was_kept(file: Path) -> None:
    done = run("verify", "--store", f"sqlite:///{file}", cwd=file.parent)

    assert done.returncode == 0, done.stderr
    assert "5 jobs" in done.stdout
    assert "every promise kept" in done.stdout


def test_verify_reads_the_store_from_the_environment(file: Path) -> None:
    os.environ["DIBS_STORE"] = f"sqlite:///{file}"
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from dibs.cli import main; main(['verify', '--json'])"],
            check=False,
            capture_output=True,
            text=True,
            timeout=50,
        )
    finally:
        del os.environ["DIBS_STORE"]

    assert json.loads(done.stdout) == {"ok": True, "jobs": 5, "events": 7, "broken": []}


def test_verify_prints_the_first_event_that_breaks_a_promise(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE dibs_event SET fence = 7 WHERE event = 'completed'")
    connection.close()

    done = run("verify", "--store", f"sqlite:///{file}", cwd=file.parent)
    as_json = run("verify", "--store", f"sqlite:///{file}", "--json", cwd=file.parent)

    assert done.returncode == 1
    assert "completed" in done.stdout
    assert ">" in done.stdout
    assert as_json.returncode == 1
    assert len(json.loads(as_json.stdout)["broken"]) == 1


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["verify", "--store", "nonsense"], 2, "url"),
        (["verify", "--store", "sqlite:////no/such/folder/jobs.db"], 5, "no file"),
        (["verifi"], 2, "verify"),
        (["verify", "--jsn"], 2, "--json"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(args: list[str], code: int, words: str, tmp_path: Path) -> None:
    done = run(*args, cwd=tmp_path)

    assert done.returncode == code
    assert words in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_migrate_says_what_it_does(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/new.db"

    would = run("migrate", "--store", store, "--dry-run", cwd=tmp_path)
    assert "would run" in would.stdout
    assert not (tmp_path / "new.db").exists()

    assert "ran" in run("migrate", "--store", store, cwd=tmp_path).stdout
    assert "up to date" in run("migrate", "--store", store, cwd=tmp_path).stdout
    assert json.loads(run("migrate", "--store", store, "--json", cwd=tmp_path).stdout) == {
        "steps": [],
        "dry_run": False,
    }


def test_help_names_the_commands(tmp_path: Path) -> None:
    done = run("--help", cwd=tmp_path)

    assert done.returncode == 0
    assert "verify" in done.stdout
    assert "migrate" in done.stdout


@pytest.mark.parametrize("command", ["verify", "keys list", "keys create --name n --scope read", "keys revoke x"])
def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, command: str) -> None:
    done = run(*command.split(), "--store", "sqlite:///typo.db", cwd=tmp_path)

    assert done.returncode == 5
    assert str(tmp_path / "typo.db") in done.stderr
    assert list(tmp_path.iterdir()) == []
