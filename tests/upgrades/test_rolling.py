"""Two versions of dibs at work on one store while it is migrated: whatever was acknowledged ends, and once."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.crew import PATIENCE, ROOT
from tests.upgrades.bare import ask
from tests.upgrades.scene import Scene, scene
from tests.upgrades.versions import THIS, breaking_one, environment, next_one, of_commit, run

pytestmark = pytest.mark.timeout(180)  # a dozen processes, on however busy a machine

BEFORE = "68203f4"
"""The last version that refused whatever was newer than itself."""


def roll(at: Scene, old: Path, new: Path, steps: list[str]) -> None:
    """Upgrade as one does: migrate, begin the new ones, end the old ones; one of which dies on the way."""
    run(old, "migrate", "--store", at.url)
    for name in ("old-1", "old-2"):
        at.worker(name, old)
    at.producer("old-producer", old)
    at.until_at_work("old-1", "old-2", "old-producer")

    if at.url.startswith("sqlite:"):  # who opens it migrates it
        at.worker("new-1", new)
        at.until_at_work("new-1")
        assert "nothing to do" in run(new, "migrate", "--store", at.url)
    else:
        said = run(new, "migrate", "--store", at.url)
        assert said.split("\n")[:-1] == (
            [f"ran {step}" for step in steps] or ["nothing to do: the schema is up to date"]
        )
        at.worker("new-1", new)
    at.producer("new-producer", new)
    at.until_at_work("old-1", "old-2", "old-producer", "new-1", "new-producer")

    at.kill_and_restart("old-1")
    at.until_at_work("old-1", "new-1")
    at.end("old-producer", "old-1", "old-2")
    at.until_at_work("new-1", "new-producer")
    at.end("new-producer")
    at.until_all_have_ended(new)
    at.end("new-1")
    at.judge(new)


def test_the_next_version_adds_to_the_schema(url: str, tmp_path: Path) -> None:
    """The next one writes what it has added, and this one, which knows nothing of it, works on the same rows."""
    new = next_one(tmp_path)
    with scene(url, tmp_path) as at:
        roll(at, THIS, new, ["0002_later.sql"])
        at.judge(THIS)
    written = dict(asyncio.run(ask(url, "SELECT coalesce(later, 1), count(*) FROM dibs_job GROUP BY 1")))
    assert written.keys() == {1, 2}


@pytest.mark.long
def test_from_the_version_before(any_url: str, tmp_path: Path) -> None:
    """The code as it was, and this one, which has added no step since: they share a store, and neither minds.

    On Redis their scripts are not the same, and work on the same keys.
    """
    old = of_commit(BEFORE, tmp_path)
    if old is None:
        pytest.skip(f"THE HISTORY IS NOT HERE: {BEFORE} cannot be taken from it, so nothing was compared with it")
    with scene(any_url, tmp_path) as at:
        roll(at, old, THIS, [])


def test_the_next_version_breaks_with_the_schema(url: str, tmp_path: Path) -> None:
    """Those of this version end, with a word on why; what they held is taken over, and nothing is lost."""
    new = breaking_one(tmp_path)
    with scene(url, tmp_path) as at:
        run(THIS, "migrate", "--store", url)
        at.worker("old-1", THIS)
        old_producer = at.producer("producer", THIS)
        idle = begin_idle(url, THIS)
        at.until_at_work("old-1", "producer")

        if url.startswith("sqlite:"):
            at.worker("new-1", new)
        else:
            assert run(new, "migrate", "--store", url) == "ran 0002_anew.breaking.sql\n"
            at.worker("new-1", new)
        gone = at.until_gone("old-1")
        assert "ended by itself, with status 1" in gone
        assert "SchemaOutdated" in gone
        assert "upgrade dibs here too" in gone
        said, _ = idle.communicate(timeout=PATIENCE)
        assert idle.returncode == 8
        assert "upgrade dibs here too" in said.splitlines()[-1]
        assert "has schema 2, this version of dibs knows 1" in run(THIS, "jobs", "--store", url, status=8)

        old_producer.kill()  # it was told that nothing is taken any more, and asks again and again
        at.producer("producer", new)  # sends what was not acknowledged, under the same keys
        at.until_at_work("producer", "new-1", lost=("old-1",))
        at.end("producer")
        at.until_all_have_ended(new)
        at.end("new-1")
        at.judge(new)


def begin_idle(url: str, source: Path) -> subprocess.Popen[str]:
    """Run a worker by the command line, which has nothing to do and will notice all the same."""
    return subprocess.Popen(
        [sys.executable, "-m", "dibs", "worker", "tests.upgrades.idle:app"],
        cwd=ROOT,
        env={**environment(source), "DIBS_STORE": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
