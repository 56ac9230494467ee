"""The worker in bash of the how-to page, as a user would run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import dibs
from tests.server.process import PATIENCE, Serving

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "worker.sh"
SHOUT = """
read -r x
case $x in *bad*) echo no use >&2; exit 3 ;; esac
printf %s "$x" | tr a-z A-Z
printf ' %s' "$DIBS_FENCE"
"""


def start(serving: Serving, *command: str) -> subprocess.Popen[str]:
    key = (serving.folder / "dibs-admin.key").read_text().strip()
    environment = {**os.environ, "DIBS_URL": serving.url, "DIBS_API_KEY": key}
    return subprocess.Popen([SCRIPT, "shout", *command], env=environment, stdout=subprocess.PIPE, text=True)


def stop(worker: subprocess.Popen[str]) -> str:
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    said, _ = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0
    assert time.monotonic() - began < 10
    return said


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "claim-over-http.md").read_text()
    commands = "\n".join(re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    with Serving(tmp_path) as serving:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "DIBS_URL": serving.url, "DIBS_STORE": serving.store, "PATH": path}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        assert '"success":false' not in done.stdout
        with dibs.App(serving.store).sync as queue:
            [job] = queue.find()
            assert (job.status, job.result, job.progress) == ("completed", {"width": 640}, 0.5)
    assert SCRIPT.relative_to(ROOT).as_posix() in page


def test_jobs_are_done_and_failures_told(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        app = dibs.App(serving.store)
        with app.sync as queue:
            good = queue.enqueue("shout", 'a "quoted" word')
            bad = queue.enqueue("shout", "bad", max_attempts=1)
            number = queue.enqueue("shout", 7)
            other = queue.enqueue("whisper")
            worker = start(serving, "bash", "-c", SHOUT)
            try:
                assert queue.wait(good.id, timeout=PATIENCE).result == '"A \\"QUOTED\\" WORD" 1'
                failed = queue.wait(bad.id, timeout=PATIENCE)
                assert (failed.status, failed.error and failed.error.message) == ("failed", "no use\n")
                queue.wait(number.id, timeout=PATIENCE)
            finally:
                said = stop(worker)
            assert f"{good.id}: completed (200)" in said
            assert f"{bad.id}: failed (200)\nno use" in said
            assert queue.get(other.id).attempts == 0  # type: ignore[union-attr]
            assert queue.verify().ok


def test_a_stop_gives_the_job_back(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        app = dibs.App(serving.store)
        with app.sync as queue:
            started = tmp_path / "started"
            job = queue.enqueue("shout")
            worker = start(serving, "bash", "-c", f"echo > {started}; exec sleep 60")
            while not started.exists():
                time.sleep(0.02)
            stop(worker)
            after = queue.get(job.id)
            assert after is not None
            assert (after.status, after.attempts) == ("pending", 0)


def test_what_is_json_is_kept_as_such(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving, dibs.App(serving.store).sync as queue:
        job = queue.enqueue("shout", {"width": 5})
        worker = start(serving, "cat")
        try:
            assert queue.wait(job.id, timeout=PATIENCE).result == {"width": 5}
        finally:
            stop(worker)


def test_a_command_that_cannot_be_run_is_refused() -> None:
    for arguments, told in (([], "usage"), (["shout"], "usage"), (["shout", "/no/such/command"], "cannot be run")):
        done = subprocess.run([SCRIPT, *arguments], check=False, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode != 0
        assert told in done.stderr
