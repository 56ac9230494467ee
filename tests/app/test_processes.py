"""An app and its process: forks, and the end of the interpreter."""

import subprocess
import sys
from pathlib import Path

import pytest

FORK = """
import asyncio, os, sys, threading
import dibs

app = dibs.App(sys.argv[1])
queue = app.sync

async def use():
    job = await app.enqueue("t")
    claim = await app.claim(id=job.id, lease=1)
    async with claim:
        await asyncio.sleep(0)
    return job.id

queue.enqueue("t", "parent")
held = queue.claim("parent", lease=30)
held.__enter__()
asyncio.run(use())
portal = app.runtime.portal()
assert portal.alive

child = os.fork()
if child == 0:
    assert not portal.alive
    assert threading.active_count() == 1
    asyncio.run(use())
    mine = queue.enqueue("t", "child")
    with queue.claim("child", id=mine.id) as claim:
        pass
    assert app.runtime.portal() is not portal
    print("child", queue.counts().completed, flush=True)
    queue.close()
    sys.exit(0)

assert os.waitpid(child, 0)[1] == 0
assert app.runtime.portal() is portal
held.extend()
held.__exit__(None, None, None)
asyncio.run(use())
print("parent", queue.counts().completed, queue.verify().ok, flush=True)
"""

DROP = """
import asyncio, gc, os, sys, threading, time
import dibs

def ours():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("dibs-"))

def use(path, way):
    app = dibs.App(path)
    if way == "sync":
        app.sync.enqueue("t")
        with app.sync.claim("w"):
            pass
        app.sync.find().items
    elif way == "async":
        asyncio.run(app.enqueue("t"))
    else:
        app.sync.enqueue("t")
        if os.fork() == 0:
            del app
            gc.collect()
            assert ours() == [], ours()
            os._exit(0)
        assert os.wait()[1] == 0
        assert app.sync.counts().pending == 1

before = len(os.listdir("/dev/fd"))
for number in range(3):
    use(f"sqlite:///{sys.argv[1]}/{number}.db", sys.argv[2])
gc.collect()
end = time.monotonic() + 10
while (ours() or len(os.listdir("/dev/fd")) > before) and time.monotonic() < end:
    time.sleep(0.01)
print(ours(), len(os.listdir("/dev/fd")) - before)
"""

EXITS = {
    "sync": "app.sync.enqueue('t')",
    "async": "asyncio.run(app.enqueue('t'))",
    "claimed": "app.sync.enqueue('t'); app.sync.claim()",
    "held": "app.sync.enqueue('t'); app.sync.claim().__enter__()",
    "in a loop": "app.sync.enqueue('t'); claims = app.sync.claims(); next(claims)",
    "exception": "app.sync.enqueue('t')\ntry: raise SystemExit(0)\nfinally: app.sync.claim()",
    "dropped": "app.sync.enqueue('t'); app.sync.claim(); del app; import gc; gc.collect()",
    "dropped while held": "app.sync.enqueue('t'); app.sync.claim().__enter__(); del app; import gc; gc.collect()",
    "dropped and forked": (
        "app.sync.enqueue('t'); app = None; import gc; gc.collect(); pid = os.fork(); pid and os.waitpid(pid, 0)"
    ),
    "waiting thread": (
        "import threading; threading.Thread(target=lambda: app.sync.claim(wait=60), daemon=True).start(); "
        "app.sync.counts()"
    ),
    "forked": "app.sync.enqueue('t'); pid = os.fork(); pid and os.waitpid(pid, 0)",
}


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_an_app_is_opened_anew_after_a_fork(tmp_path: Path) -> None:
    done = run(FORK, f"sqlite:///{tmp_path / 'jobs.db'}")
    assert (done.stdout, done.stderr, done.returncode) == ("child 3\nparent 5 True\n", "", 0)


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
@pytest.mark.parametrize("way", EXITS)
def test_the_interpreter_ends_in_peace(way: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(f"import asyncio, os, dibs\napp = dibs.App({url!r})\n{EXITS[way]}")
    assert (done.stdout, done.returncode) == ("", 0)
    assert "dibs" not in done.stderr or way == "waiting thread", done.stderr
    if way != "waiting thread":
        assert done.stderr == ""


@pytest.mark.parametrize("way", ["sync", "async", "fork"])
def test_an_app_that_is_dropped_leaves_no_threads_and_no_files_open(way: str, tmp_path: Path) -> None:
    done = run(DROP, str(tmp_path), way)
    assert (done.stdout, done.stderr, done.returncode) == ("[] 0\n", "", 0)
