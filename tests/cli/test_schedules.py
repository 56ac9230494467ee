"""``dibs schedules`` as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dibs


def run(file: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DIBS_STORE": f"sqlite:///{file}"}
    command = [sys.executable, "-m", "dibs", "schedules", *args]
    return subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=50)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    app = dibs.App(f"sqlite:///{path}")

    @app.schedule("30 3 * * MON", tz="Europe/Berlin", name="weekly", params={"days": 7})
    async def report(days: int) -> None: ...

    app.schedule(3600, name="hourly", params={"days": 1})(report)
    app.runtime.run(_publish(app))
    app.runtime.close_and_wait()
    return path


async def _publish(app: dibs.App) -> None:
    await app.runtime.broker().publish(app.plans)


def test_list_shows_when_each_ticks_next(file: Path) -> None:
    done = run(file)

    assert done.returncode == 0, done.stderr
    hourly, weekly = done.stdout.splitlines()
    assert hourly.startswith("hourly (report): every 1:00:00; active; last never; next 20")
    assert weekly.startswith("weekly (report): 30 3 * * MON Europe/Berlin; active; last never; next 20")


def test_list_as_json(file: Path) -> None:
    done = run(file, "list", "--json", "--next", "3")

    hourly, weekly = json.loads(done.stdout)["schedules"]
    assert (hourly["every_seconds"], hourly["params"], len(hourly["next"])) == (3600, {"days": 1}, 3)
    assert (weekly["cron"], weekly["tz"], weekly["catch_up"]) == ("30 3 * * MON", "Europe/Berlin", "last")


def test_pause_resume_and_run(file: Path) -> None:
    paused = run(file, "pause", "weekly", "--by", "olga")
    assert (paused.returncode, paused.stdout) == (0, "paused weekly; workers heed it within seconds\n")
    assert "paused by olga; last never\n" in run(file).stdout
    ran = run(file, "run", "weekly", "--json")
    with dibs.App(f"sqlite:///{file}").sync as app:
        job = app.get(json.loads(ran.stdout)["id"])
        assert job is not None
        assert (job.task, job.params) == ("report", {"days": 7})
    resumed = run(file, "resume", "weekly", "--json")
    assert json.loads(resumed.stdout)["status"] == "active"
    assert run(file, "resume", "weekly").stdout.startswith("resumed weekly; next 20")


def test_a_mistake_is_told_in_a_sentence(file: Path) -> None:
    done = run(file, "pause", "none")

    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("dibs: there is no schedule 'none'")
    assert run(file, "list", "--next", "0").returncode == 2


def test_without_any(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    with dibs.App(f"sqlite:///{file}").sync as app:
        app.counts()

    assert "there are no schedules" in run(file).stdout
