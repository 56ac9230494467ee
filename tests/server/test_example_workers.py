"""The workers in other languages, as a user would run them; and the commands of the page that shows them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import dibs
from tests.server.process import PATIENCE, Serving
from tests.servers.keeping import cache
from tests.servers.programs import node, node_from_wheel, program, unpacked, version

ROOT = Path(__file__).parents[2]
WORKERS = ROOT / "examples" / "workers"
PAGE = ROOT / "docs" / "how-to" / "claim-over-http.md"
COMMANDS: dict[str, Callable[[], list[str]]] = {
    "worker.sh": lambda: ["bash"],
    "worker.mjs": lambda: [str(node())],
    "worker.py": lambda: [sys.executable, "-I"],  # without dibs: it is not even looked for
}

each = pytest.mark.parametrize("name", sorted(COMMANDS))


@contextmanager
def working(name: str, serving: Serving, lease: float = 30, key: str | None = None) -> Iterator[subprocess.Popen[str]]:
    """Have a worker, and see that it ends."""
    if key is None:
        key = (serving.folder / "dibs-admin.key").read_text().strip()
    environment = {**os.environ, "DIBS_URL": serving.url, "DIBS_API_KEY": key, "DIBS_LEASE": str(lease)}
    if name == "worker.sh":
        folders = {str(program(tool).parent) for tool in ("curl", "jq")}
        environment["PATH"] = os.pathsep.join([*folders, os.environ["PATH"]])
    command = [*COMMANDS[name](), str(WORKERS / name)]
    with subprocess.Popen(
        command, env=environment, cwd=serving.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as worker:
        try:
            yield worker
        finally:
            if worker.poll() is None:
                worker.kill()


def stop(worker: subprocess.Popen[str]) -> str:
    """Tell it to stop, and wait for that: it takes no longer than a claim may wait."""
    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    said, _ = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, said
    assert time.monotonic() - began < 15
    return said


def begun(queue: dibs.SyncApp, id: str) -> None:
    """Wait until someone has claimed a job."""
    end = time.monotonic() + PATIENCE
    while queue.get(id).fence == 0:  # type: ignore[union-attr]
        assert time.monotonic() < end
        time.sleep(0.02)


def kept(queue: dibs.SyncApp, id: str) -> None:
    """Wait until a claim was extended: by then its worker has been told of it, and is at work."""
    end = time.monotonic() + PATIENCE
    while (job := queue.get(id)) is None or job.updated_us <= (job.claimed_us or job.updated_us):
        assert time.monotonic() < end
        time.sleep(0.02)


def answered(serving: Serving) -> None:
    """Wait until a claim was answered."""
    end = time.monotonic() + PATIENCE
    while not any('"route":"/api/tasks/claim","status":200' in line for line in serving.said):
        assert time.monotonic() < end
        time.sleep(0.02)


@each
def test_jobs_are_done_and_failures_told(tmp_path: Path, name: str) -> None:
    with Serving(tmp_path) as serving, dibs.App(serving.store).sync as queue:
        good = queue.enqueue("shout", {"text": 'a "quoted" word, $HOME'})
        bad = queue.enqueue("shout", {"seconds": 0}, max_attempts=1)
        other = queue.enqueue("whisper", {"text": "x"})
        with working(name, serving) as worker:
            assert queue.wait(good.id, timeout=PATIENCE).result == 'A "QUOTED" WORD, $HOME'
            failed = queue.wait(bad.id, timeout=PATIENCE)
            later = queue.enqueue("shout", {"text": "later"})
            assert queue.wait(later.id, timeout=PATIENCE).result == "LATER"
            said = stop(worker)
        assert failed.status == "failed"
        assert failed.error is not None
        assert "there is no text" in failed.error.message
        assert [f"{id}: complete, 200" in said for id in (good.id, bad.id, later.id)] == [True] * 3
        assert queue.get(other.id).fence == 0  # type: ignore[union-attr]
        assert queue.verify().ok


@each
def test_the_claim_is_kept_and_a_lost_one_is_left(tmp_path: Path, name: str) -> None:
    with Serving(tmp_path) as serving, dibs.App(serving.store).sync as queue:
        long = queue.enqueue("shout", {"text": "long", "seconds": 4})
        with working(name, serving, lease=1.5) as worker:
            kept = queue.wait(long.id, timeout=PATIENCE)
            assert (kept.result, kept.fence, kept.attempts) == ("LONG", 1, 1)
            lost = queue.enqueue("shout", {"text": "lost", "seconds": 600})
            begun(queue, lost.id)
            queue.cancel(lost.id)
            after = queue.enqueue("shout", {"text": "after"})
            assert queue.wait(after.id, timeout=PATIENCE).result == "AFTER"  # it works no more for no one
            stop(worker)
        assert queue.get(lost.id).status == "cancelled"  # type: ignore[union-attr]


@each
def test_a_stop_gives_the_job_back(tmp_path: Path, name: str) -> None:
    with Serving(tmp_path) as serving, dibs.App(serving.store).sync as queue:
        job = queue.enqueue("shout", {"text": "x", "seconds": 600})
        with working(name, serving, lease=6) as worker:
            kept(queue, job.id)
            said = stop(worker)
        assert f"{job.id}: release, 200" in said
        after = queue.get(job.id)
        assert after is not None
        assert (after.status, after.attempts) == ("pending", 0)


@each
def test_a_stop_while_it_waits(tmp_path: Path, name: str) -> None:
    """The claim that it waited for is called off: no job goes to one that has left."""
    with Serving(tmp_path) as serving, dibs.App(serving.store).sync as queue:
        first = queue.enqueue("shout", {"text": "x"})
        with working(name, serving) as worker:
            queue.wait(first.id, timeout=PATIENCE)
            stop(worker)
        job = queue.enqueue("shout", {"text": "x"})
        claim = queue.claim("next", wait=10)
        assert claim is not None
        assert (claim.id, claim.fence) == (job.id, 1)


@each
def test_a_server_that_is_killed_meanwhile(tmp_path: Path, name: str) -> None:
    with Serving(tmp_path, "--log-requests") as serving, dibs.App(serving.store).sync as queue:
        job = queue.enqueue("shout", {"text": "x", "seconds": 2})
        with working(name, serving) as worker:
            begun(queue, job.id)
            answered(serving)  # else no one may know of the claim, and the job comes again when its lease has run out
            serving.end(signal.SIGKILL)
            serving.start()
            ended = queue.wait(job.id, timeout=PATIENCE)
            assert (ended.result, ended.fence) == ("X", 1)
            later = queue.enqueue("shout", {"text": "later"})
            assert queue.wait(later.id, timeout=PATIENCE).result == "LATER"
            stop(worker)


@each
def test_a_key_that_is_none(tmp_path: Path, name: str) -> None:
    with Serving(tmp_path) as serving, working(name, serving, key="dibs_none_nothing") as worker:
        said, _ = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 1
        assert "key" in said


@each
def test_each_fits_on_a_page_and_is_shown(name: str) -> None:
    script = WORKERS / name
    assert len(script.read_text().splitlines()) < 60
    assert script.relative_to(ROOT).as_posix() in PAGE.read_text()
    assert os.access(script, os.X_OK)


def test_programs_that_the_machine_does_not_have_are_brought() -> None:
    """Where there is neither root nor a package, as on a machine of someone's own."""
    found = node_from_wheel()
    assert found is not None
    assert version(found) >= (20, 3)
    jq = unpacked(cache() / "debian-jq", "jq")
    assert jq is not None
    assert version(jq) >= (1, 6)


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    commands = "\n".join(re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    with Serving(tmp_path) as serving:
        path = f"{Path(sys.executable).parent}{os.pathsep}{program('curl').parent}{os.pathsep}{os.environ['PATH']}"
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
