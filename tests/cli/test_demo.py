"""``dibs demo``, as a newcomer meets it: real processes, one of them killed, and the promises proven at the end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from typing import Any

from dibs.demo.view import at_least
from dibs.domain.job import Counts

DEMO = [sys.executable, "-m", "dibs", "demo"]


def ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def test_it_keeps_every_promise_while_workers_are_killed() -> None:
    done = subprocess.run([*DEMO, "--seconds", "6", "--json"], check=False, capture_output=True, text=True, timeout=55)

    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["workers_killed"] >= 1
    assert summary["claims"] >= summary["enqueued"] // 2 > 10
    assert (summary["double_claims"], summary["lost_jobs"], summary["verified"]) == (0, 0, True)


def test_it_shows_where_to_look_and_ends_with_ctrl_c() -> None:
    process = subprocess.Popen([*DEMO, "--seconds", "40", "--no-kill"], stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdout is not None
    said: list[str] = []
    while "claims/s" not in (line := process.stdout.readline()):
        assert line, "it ended early"
        said.append(line)
    [url] = re.findall(r"browse\s+(http://\S+)/", "".join(said))
    with urllib.request.urlopen(f"{url}/", timeout=10) as page:
        assert b"dibs" in page.read()
    job = {"task_type": "thumbnail", "params": {"picture": 7}}
    request = urllib.request.Request(
        f"{url}/api/tasks", json.dumps(job).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 201
    end = time.monotonic() + 20
    while (workers := ask(f"{url}/api/workers")["workers"]) and len(workers) < 10:  # they come one after another
        assert time.monotonic() < end, workers
    began = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=40)
    assert process.returncode == 0
    assert time.monotonic() - began < 20
    assert "every promise kept" in rest


def test_what_is_not_counted_anew_each_time_is_told_as_at_least_so_many() -> None:
    assert at_least(Counts(completed=9_999)) == "9,999"
    assert at_least(Counts(completed=10_164, exact=False)) == "10,164+"
