"""Several processes on one port: what they count together, who replaces the dead, and how all of them stop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dibs
from dibs.server import keys
from dibs.server.windows import WINDOW, OwnWindows, SharedWindows, Windows
from tests.server.process import PATIENCE, Serving
from tests.server.test_polling import answer, poll, request
from tests.server.test_serve import run

ENDED = re.compile(r"process (\d+) (was killed by signal \d+|ended with code \d+); another takes its place in ([\d.]+)")


def children(pid: int) -> list[int]:
    """The processes that serve, by their parent; the one that only looks after multiprocessing's names is left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except (OSError, IndexError):
                continue
            if parent == pid and b"spawn_main" in command:
                found.append(int(entry.name))
    return sorted(found)


def until(condition: Callable[[], Any]) -> Any:
    """Look until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)
    return found


def connections(pid: int, port: int) -> int:
    """How many connections a process has on the port, and has read all of what came in on them."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].split(":")[1], 16) == port and fields[3] == "01" and fields[4].endswith(":00000000"):
            inodes.add(f"socket:[{fields[9]}]")
    held = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held += str(entry.readlink()) in inodes
        except OSError:
            continue
    return held


def gone(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True


def holds_back(pid: int, sign: int) -> bool:
    """Whether a signal to the process would wait until it can listen to it."""
    [mask] = re.findall(r"SigBlk:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(mask, 16) >> (sign - 1) & 1)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, "--no-auth", "--processes", "2") as serving:
        yield serving


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Two processes, for several tests: a start is a second of work for each of them."""
    with Serving(tmp_path_factory.mktemp("lasting"), "--no-auth", "--processes", "2") as serving:
        yield serving


def pids_of(serving: Serving) -> list[int]:
    assert serving.process is not None
    return children(serving.process.pid)


def call(serving: Serving, path: str, body: Any = None, key: str = "none") -> tuple[int, str, str]:
    """Send a request on a connection of its own; give the status, the head and the body."""
    data = request(path, body) if body is not None else f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    data = data.replace(b"\r\n", f"\r\nX-API-Key: {key}\r\nConnection: close\r\n".encode(), 1)
    with serving.connect() as connection:
        connection.sendall(data)
        got = b""
        while piece := connection.recv(65536):
            got += piece
    head, _, text = got.decode().partition("\r\n\r\n")
    return int(head.split()[1]), head.lower(), text


def made_key(serving: Serving, rate: int) -> str:
    async def make() -> str:
        async with dibs.App(serving.store) as app:
            broker, clock = app.runtime.broker(), app.runtime.clock
            return (await keys.create(broker, clock, name="n", scopes=["admin"], rate=rate)).text

    return asyncio.run(make())


def number(text: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


# Serving


def test_connections_are_spread_over_the_processes(lasting: Serving) -> None:
    """Whoever has nothing to do takes the next one. Over several rounds: one may have no turn in one of them."""
    rounds = [_taken(lasting, 60) for _ in range(5)]
    assert min(map(sum, zip(*rounds, strict=True))) > 5 * len(rounds), rounds


def _taken(serving: Serving, number: int) -> list[int]:
    """Open so many connections, and say how many each process has taken."""
    opened = []
    for _ in range(number):
        opened.append(serving.connect())
        opened[-1].sendall(request("/api/tasks", {"task_type": "t"}))
    assert {answer(connection)[0] for connection in opened} == {201}
    held = [connections(pid, serving.port) for pid in pids_of(serving)]
    for connection in opened:
        connection.close()
    assert sum(held) == number
    return held


def test_any_process_wakes_who_waits_at_another(lasting: Serving) -> None:
    polls = [poll(lasting, f"w-{n}") for n in range(12)]
    with lasting.connect() as producer:
        producer.sendall(request("/api/tasks", {"tasks": [{"task_type": "t"}] * 12}))
        assert answer(producer)[0] == 201
    answers = [answer(connection) for connection in polls]
    for connection in polls:
        connection.close()

    assert {status for status, _ in answers} == {200}
    assert len({got["task"]["id"] for _, got in answers}) == 12


@pytest.mark.parametrize("amount", ["0", "-1", "1000"])
def test_numbers_that_cannot_be(tmp_path: Path, amount: str) -> None:
    done = run("serve", "--port", "0", "--processes", amount, "--store", f"sqlite:///{tmp_path}/x.db", cwd=tmp_path)
    assert (done.returncode, "processes" in done.stderr) == (2, True)


def test_memory_is_not_shared(tmp_path: Path) -> None:
    done = run("serve", "--port", "0", "--processes", "2", "--store", "memory://", cwd=tmp_path)
    assert (done.returncode, "memory" in done.stderr) == (2, True)


def test_a_store_that_cannot_be_opened_is_told_once(tmp_path: Path) -> None:
    done = run("serve", "--port", "0", "--processes", "2", "--store", "sqlite:////no/such/x.db", cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (8, False)


def test_the_password_of_the_store_is_in_no_process_list(lasting: Serving) -> None:
    """It goes to the processes through a pipe. (That of whoever was told on the command line is theirs to see.)"""
    for pid in pids_of(lasting):
        assert b"jobs.db" not in Path(f"/proc/{pid}/cmdline").read_bytes()


# Stopping


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_polls_and_streams_in_all_of_them(two: Serving, sign: int) -> None:
    pids = pids_of(two)
    polls = [poll(two, f"w-{n}") for n in range(20)]
    streams = [two.connect() for _ in range(6)]
    for stream in streams:
        stream.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in stream.recv(65536)
    until(lambda: sum(connections(pid, two.port) for pid in pids) == 26)
    began = time.monotonic()
    assert two.end(sign) == 0
    took = time.monotonic() - began

    assert took < 5
    assert {answer(connection)[0] for connection in polls} == {404}
    for stream in streams:
        while stream.recv(65536):
            pass
    for connection in [*polls, *streams]:
        connection.close()
    assert all(gone(pid) for pid in pids)
    assert "dibs has stopped" in "".join(two.said)
    assert "Traceback" not in "".join(two.said)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start(tmp_path: Path, sign: int) -> None:
    """As Ctrl-C sends it, to all at once: whoever cannot listen to it yet stops as soon as it can."""
    command = [sys.executable, "-c", "from dibs.cli import main; main()", "serve", "--no-auth", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--processes", "2", "--store", f"sqlite:///{tmp_path}/jobs.db"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        # Not measured: it is the measuring that the signal would meet, as it begins before anything else.
        env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")},
    )  # fmt: skip
    pids = until(lambda: children(process.pid))
    held_back = [holds_back(pid, sign) for pid in pids]
    os.killpg(process.pid, sign)
    said, _ = process.communicate(timeout=PATIENCE)

    assert all(held_back)
    assert (process.returncode, said) == (0, "dibs has stopped\n")
    assert all(gone(pid) for pid in pids)


def test_what_they_share_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with Serving(tmp_path, "--no-auth", "--processes", "2") as serving:
            assert serving.process is not None
            [folder] = scratch.glob("dibs-*")
            assert folder.stat().st_mode & 0o077 == 0
            serving.end(sign)
            until(lambda: not list(scratch.glob("dibs-*")))


def test_processes_that_are_left_alone_stop(two: Serving) -> None:
    pids = pids_of(two)
    waiting = poll(two)
    until(lambda: sum(connections(pid, two.port) for pid in pids) == 1)
    two.end(signal.SIGKILL)

    assert answer(waiting)[0] == 404
    waiting.close()
    until(lambda: all(gone(pid) for pid in pids))


def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    code = """
from dibs.server import processes
processes.GRACE = 1.0
from dibs.cli import main
main()"""
    with Serving(tmp_path, "--no-auth", "--processes", "2", code=code) as serving:
        stuck = pids_of(serving)[0]
        os.kill(stuck, signal.SIGSTOP)
        assert serving.end() == 0
        assert gone(stuck)
        assert f"process {stuck} did not stop" in "".join(serving.said)


# Dying


def replaced(serving: Serving, before: list[int]) -> list[int]:
    """Wait until there are as many again; say who is new."""
    now = until(lambda: found if len(found := pids_of(serving)) == len(before) and found != before else None)
    return sorted(set(now) - set(before))


def test_a_process_that_dies_is_replaced(two: Serving) -> None:
    """Each pause is twice the one before, as it dies again and again. Someone serves all the while."""
    steady, victim = before = pids_of(two)
    for _ in range(3):
        os.kill(victim, signal.SIGKILL)
        [new] = replaced(two, before)
        assert call(two, "/api/tasks", {"task_type": "t"})[0] == 201
        victim, before = new, sorted([steady, new])
    ended = until(lambda: found if len(found := ENDED.findall("".join(two.said))) == 3 else None)

    assert [(how, float(pause)) for _, how, pause in ended] == [
        ("was killed by signal 9", pause) for pause in (0.1, 0.2, 0.4)
    ]
    assert two.end() == 0


def test_a_process_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    code = """
from multiprocessing.context import SpawnProcess
start, tries = SpawnProcess.start, []

def refuse_twice(self):
    tries.append(self)
    if 2 <= len(tries) <= 3:
        raise BlockingIOError(11, "no room")
    start(self)

SpawnProcess.start = refuse_twice
from dibs.cli import main
main()"""
    with Serving(tmp_path, "--no-auth", "--processes", "2", code=code) as serving:
        assert len(pids_of(serving)) == 2
        said = "".join(serving.said)
    assert re.findall(r"cannot be started: .*no room; it is tried again in ([\d.]+) s", said) == ["0.1", "0.2"]


# Counting together


def test_a_rate_holds_across_processes(tmp_path: Path) -> None:
    with Serving(tmp_path, "--processes", "2") as serving:
        key, before = made_key(serving, 50), pids_of(serving)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: call(serving, "/api/tasks", key=key), range(90)))

        assert Counter(status for status, _, _ in answers) == {200: 50, 429: 40}
        left = [int(head.partition('ratelimit: "key";r=')[2].partition(";")[0]) for status, head, _ in answers]
        assert sorted(left) == [0] * 40 + list(range(50))
        assert len(counted_by(serving)) == 2  # else this would prove nothing

        # Nor does it begin anew with those who take the place of the dead; and connections wait while none is alive.
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert call(serving, "/api/tasks", key=key)[0] == 429


def counted_by(serving: Serving) -> list[int]:
    """Which places have answered: each of them has a histogram of its own."""
    scratch = Path(tempfile.gettempdir())
    [folder] = [path for path in scratch.glob("dibs-*") if holds(pids_of(serving)[0], path)]
    found = []
    for place in range(2):
        data = (folder / f"histogram_{place}.db").read_bytes()
        found += [place] if b"/api/tasks" in data else []
    return found


def holds(pid: int, folder: Path) -> bool:
    return str(folder) in Path(f"/proc/{pid}/maps").read_text()


def test_metrics_are_those_of_all_processes(two: Serving) -> None:
    for _ in range(30):
        assert call(two, "/api/tasks", {"task_type": "t"})[0] == 201
    name = 'dibs_http_requests_total{method="POST",route="/api/tasks",status="201"}'
    for _ in range(5):
        assert number(call(two, "/metrics")[2], name) == 30
    assert number(call(two, "/metrics")[2], 'dibs_http_request_seconds_count{method="POST",route="/api/tasks"}') == 30

    for pid in pids_of(two):  # what a dead one has counted is not forgotten
        os.kill(pid, signal.SIGKILL)
    assert call(two, "/api/tasks", {"task_type": "t"})[0] == 201
    told = call(two, "/metrics")[2]
    assert number(told, name) == 31
    assert number(told, 'dibs_queue_jobs{queue="default",state="pending"}') == 31


# The table of windows


@pytest.fixture(params=["own", "shared"])
def windows(request: pytest.FixtureRequest, tmp_path: Path) -> Windows:
    return OwnWindows() if request.param == "own" else SharedWindows(tmp_path / "limits")


def test_a_window_is_full_and_begins_anew(windows: Windows) -> None:
    assert [tuple(windows.count("k", 2, 10.0 + n)) for n in range(3)] == [(10, 1, False), (10, 2, False), (10, 2, True)]
    assert tuple(windows.count("other", 2, 12.0)) == (12, 1, False)
    assert windows.count("k", 2, 10.0 + WINDOW - 0.01).refused
    assert tuple(windows.count("k", 2, 10.0 + WINDOW)) == (10 + WINDOW, 1, False)
    assert windows.count("k", 2, 10.0 + WINDOW - 0.01).began == 10 + WINDOW  # another process's now, a moment before


def test_many_keys_have_their_own_windows(windows: Windows) -> None:
    ids = [f"{n:032x}" for n in range(2000)]
    for _ in range(2):
        for id in ids:
            windows.count(id, 10, 1.0)
    assert {windows.count(id, 10, 1.0).used for id in ids} == {3}


def test_a_full_part_of_the_table_takes_the_place_of_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dibs.server.windows._PARTS", 1)
    table = SharedWindows(tmp_path / "limits")
    for n in range(8):
        table.count(f"k{n}", 5, float(n + 1))
    table.count("new", 5, 9.0)

    assert table.count("k1", 5, 9.0).used == 2
    assert table.count("new", 5, 9.0).used == 2
    assert table.count("k0", 5, 9.0).used == 1


def test_processes_that_count_at_once_miss_nothing(tmp_path: Path) -> None:
    code = """
import sys, pathlib
from dibs.server.windows import SharedWindows
table = SharedWindows(pathlib.Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20_000):
    table.count("k", 1_000_000, 1.0)"""
    command = [sys.executable, "-c", code, str(tmp_path / "limits")]
    counting = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for process in counting:
        assert process.stdout is not None
        process.stdout.readline()
    for process in counting:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in counting:
        process.communicate(timeout=PATIENCE)

    assert SharedWindows(tmp_path / "limits").count("k", 1_000_000, 1.0).used == 40_001


def test_a_process_that_dies_with_the_lock_leaves_it_to_others(tmp_path: Path) -> None:
    table = SharedWindows(tmp_path / "limits")
    code = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()"""
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "limits")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with (tmp_path / "limits").open("r+b") as file, pytest.raises(OSError, match=r"."):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it is locked indeed
    holder.kill()
    assert table.count("k", 1, 1.0).used == 1
    holder.communicate()
