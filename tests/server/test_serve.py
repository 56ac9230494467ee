"""``dibs serve`` as a user meets it: the first key, what is refused, what is said."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.server.process import Serving

MAIN = "from dibs.cli import main; main()"


def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "DIBS_STORE"}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *args],
        check=False,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
    )


def status(serving: Serving, key: str | None, path: str = "/api/tasks") -> int:
    request = urllib.request.Request(serving.url + path, headers={} if key is None else {"X-API-Key": key})
    try:
        with urllib.request.urlopen(request) as response:
            return int(response.status)
    except HTTPError as error:
        with error:
            return error.code


def test_the_first_start_writes_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        file = tmp_path / "dibs-admin.key"
        key = file.read_text().strip()

        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert re.fullmatch(r"dibs_admin_[A-Za-z0-9_-]{43}", key)
        assert str(file) in "".join(serving.said)
        assert key not in "".join(serving.said)
        assert [status(serving, key), status(serving, None), status(serving, key[:-2] + "xx")] == [200, 401, 401]
        assert serving.end() == 0
        file.unlink()

        serving.start()
        assert not file.exists()
        assert status(serving, key) == 200
        assert serving.end() == 0
        assert key.split("_", 2)[2] not in "".join(serving.said)


def test_the_first_start_shows_the_key_once_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", MAIN, "serve", "--store", f"sqlite:///{tmp_path}/jobs.db", "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.DEVNULL)
    try:
        said = b""
        while b"http://" not in said:
            said += os.read(ours, 65536)
        assert re.search(rb"dibs_admin_[A-Za-z0-9_-]{43}", said)
        assert not (tmp_path / "dibs-admin.key").exists()
    finally:
        process.terminate()
        process.wait()
        os.close(ours)
        os.close(theirs)
    assert process.returncode == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_without_keys_it_listens_on_loopback_only(tmp_path: Path, host: str) -> None:
    done = run("serve", "--no-auth", "--host", host, "--port", "0", "--store", "memory://", cwd=tmp_path)

    assert done.returncode == 2
    assert "host" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("serve", "--no-auth", "--port", port, "--store", "memory://", cwd=tmp_path)

    assert done.returncode == 8
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    done = run("serve", "--port", "0", "--store", "sqlite:////no/such/folder/x.db", cwd=tmp_path)

    assert done.returncode == 8
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    for number in range(100):
        name = "dibs-admin.key" if number == 0 else f"dibs-admin.key.{number}"
        (tmp_path / name).write_text("")
    done = run("serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/jobs.db", cwd=tmp_path)

    assert done.returncode == 8
    assert "dibs keys create" in done.stderr
    listed = run("keys", "list", "--json", "--store", f"sqlite:///{tmp_path}/jobs.db", cwd=tmp_path)
    assert json.loads(listed.stdout) == {"keys": []}


def test_a_missing_extra_is_told_in_a_sentence(tmp_path: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from dibs.cli import main; main(['serve'])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=50
    )

    assert done.returncode == 2
    assert "dibs-queue[server]" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_loads_no_server(tmp_path: Path) -> None:
    code = """
import sys
from dibs.cli.commands import run
run(["--help"])
assert not {"starlette", "uvicorn", "prometheus_client", "httpx2"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True, timeout=50)


# Keys


def test_keys_on_the_command_line(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/jobs.db"
    run("migrate", "--store", store, cwd=tmp_path)
    made = run(
        "keys", "create", "--name", "mailer", "--scope", "produce", "--scope", "read", "--queue", "mail",
        "--rate", "1000/min", "--expires", "30d", "--json", "--store", store, cwd=tmp_path,
    )  # fmt: skip
    plain = run(
        "keys", "create", "--name", "w", "--scope", "work", "--rate", "unlimited", "--store", store, cwd=tmp_path
    )
    told = json.loads(made.stdout)
    key = plain.stdout.strip()

    assert (told["name"], told["scopes"], told["rate"], told["queues"]) == (
        "mailer",
        ["produce", "read"],
        "1000/min",
        ["mail"],
    )
    assert told["expires_at"].endswith("Z")
    assert re.fullmatch(r"dibs_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key)
    listed = json.loads(run("keys", "list", "--json", "--store", store, cwd=tmp_path).stdout)["keys"]
    assert {one["name"] for one in listed} == {"mailer", "w"}
    text = run("keys", "list", "--store", store, cwd=tmp_path).stdout
    assert "mailer: produce,read; 1000/min; mail, until" in text
    for secret in (key, told["key"]):
        assert secret.split("_", 2)[2] not in text

    with Serving(tmp_path) as serving:
        assert not (tmp_path / "dibs-admin.key").exists()
        assert status(serving, told["key"]) == 200
        assert status(serving, key) == 403
        revoked = run("keys", "revoke", told["id"], "--store", store, cwd=tmp_path)
        assert revoked.returncode == 0
        again = run("keys", "revoke", told["id"], "--store", store, cwd=tmp_path)
        assert again.returncode == 5


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--name", "n", "--scope", "everything"], "scope"),
        (["--name", "", "--scope", "read"], "name"),
        (["--name", "n", "--scope", "read", "--rate", "fast"], "rate"),
        (["--name", "n", "--scope", "read", "--rate", "0/min"], "rate"),
        (["--name", "n", "--scope", "read", "--queue", "../"], "queue"),
        (["--name", "n", "--scope", "read", "--expires", "soon"], "expires"),
        (["--name", "n", "--scope", "read", "--expires", "2001-01-01"], "expires"),
        (["--name", "n"], "scope"),
    ],
)
def test_keys_that_cannot_be(tmp_path: Path, args: list[str], word: str) -> None:
    store = f"sqlite:///{tmp_path}/jobs.db"
    run("migrate", "--store", store, cwd=tmp_path)
    done = run("keys", "create", *args, "--store", store, cwd=tmp_path)

    assert done.returncode == 2
    assert word in (done.stderr + done.stdout).lower()
    assert "Traceback" not in done.stderr
