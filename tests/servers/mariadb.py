"""A private MariaDB for one run of the tests: found or installed, shared by all its processes, gone with them.

In this order: the URL in DIBS_TEST_MYSQL (of a user that may create databases; MySQL 8 will do as well), a binary on
the machine, Debian's package (with apt-get as root, unpacked without). No wheel that we know of ships the server. There
is no skipping: a run without a server fails.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pymysql

from tests.servers import keeping
from tests.servers.keeping import Missing, attempt, cache, free_port

PACKAGE = "mariadb-server-core"
LIBRARIES = ("libaio1", "liburing2", "libsnappy1v5", "libnuma1", "libpmem1", "libdaxctl1", "libndctl6")
TABLES = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
USER, PASSWORD = "dibs", "se'cr et"
BEFORE = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"
AFTER = f"""
FLUSH PRIVILEGES;
CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD.replace("'", "''")}';
GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;
"""
SETTINGS = {
    "bind-address": "127.0.0.1",
    "skip-name-resolve": "1",
    "max-connections": "300",
    "innodb-buffer-pool-size": "128M",
    "innodb-log-file-size": "64M",
    "innodb-doublewrite": "0",
    "innodb-flush-log-at-trx-commit": "2",  # a server that is killed loses nothing; a machine would
}
DURABLE = {"innodb-doublewrite": "1", "innodb-flush-log-at-trx-commit": "1"}
START_SECONDS = 60


# ---------------------------------------------------------------- finding one


def program() -> Path:
    """Find mariadbd, installing it if need be."""
    for look in (_on_the_machine, _from_debian):
        found = look()
        if found is not None:
            return found
    raise Missing(
        "MariaDB is needed by the tests and could not be found or installed. "
        f"Install it (Debian: apt-get install {PACKAGE}), or set DIBS_TEST_MYSQL to mysql://user:password@host/mysql."
    )


def _on_the_machine() -> Path | None:
    folders = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"])
    found = shutil.which("mariadbd", path=folders)
    return None if found is None else Path(found)


def _from_debian() -> Path | None:
    if not Path("/etc/debian_version").exists():
        return None
    if os.getuid() != 0:
        return unpacked(cache() / "debian-mariadb")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    attempt(["apt-get", "update", "-qq"], env=env)
    attempt(["apt-get", "install", "-y", "-qq", "--no-install-recommends", PACKAGE], env=env)
    return _on_the_machine()


def unpacked(target: Path) -> Path | None:
    """Fetch Debian's package and the libraries that it may need, and unpack them where anyone may."""
    found = target / "usr/sbin/mariadbd"
    if not found.exists():
        new = target.with_name(f"{target.name}-{os.getpid()}")  # in its place once it is whole: others may look for it
        new.mkdir(parents=True, exist_ok=True)
        for package in (PACKAGE, *LIBRARIES):
            attempt(["apt-get", "download", package], cwd=new)
        for archive in new.glob("*.deb"):
            attempt(["dpkg-deb", "-x", archive, new])
        with contextlib.suppress(OSError):  # another run was faster
            new.rename(target)
        shutil.rmtree(new, ignore_errors=True)
    return found if found.exists() else None


# ---------------------------------------------------------------- running one


class Server:
    """One private instance, and how to stop and start it."""

    def __init__(self, folder: Path | str, program: Path | str, port: int, durable: bool) -> None:
        self.folder, self.program, self.port, self.durable = Path(folder), Path(program), port, durable
        self.options: dict[str, str] = {}  # what a test starts it with besides

    @property
    def state(self) -> list[Any]:
        return [str(self.folder), str(self.program), self.port, self.durable]

    @property
    def url(self) -> str:
        return f"mysql://{USER}:se%27cr%20et@127.0.0.1:{self.port}/mysql"

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    @classmethod
    def make(cls, folder: Path, *, durable: bool = False) -> "Server":
        """Make a data folder, and a user."""
        server = cls(folder, program(), free_port(), durable)
        (folder / "data").mkdir()
        texts = [(server._share / name).read_text("utf-8") for name in TABLES]
        done = subprocess.run(
            server._command("--bootstrap", "--innodb-log-file-size=16M"),
            input=BEFORE + "".join(texts) + AFTER,
            capture_output=True,
            text=True,
            check=False,
            env=server._environment,
            timeout=START_SECONDS,
        )
        if done.returncode != 0:
            raise Missing(f"mariadbd --bootstrap failed: {done.stderr}{done.stdout}")
        return server

    @property
    def _base(self) -> Path:
        return self.program.parent.parent

    @property
    def _share(self) -> Path:
        return next(path.parent for path in self._base.glob(f"share/*/{TABLES[0]}"))

    @property
    def _environment(self) -> dict[str, str]:
        if self._base == Path("/usr"):
            return dict(os.environ)
        folders = [
            str(path) for path in (*self._base.glob("lib/*-linux-gnu"), *self._base.parent.glob("lib/*-linux-gnu"))
        ]
        return os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(folders)}

    def _command(self, *options: str) -> list[str]:
        return [
            str(self.program),
            "--no-defaults",
            f"--basedir={self._base}",
            f"--lc-messages-dir={self._share}",
            f"--datadir={self.folder / 'data'}",
            f"--tmpdir={self.folder / 'data'}",
            *(["--user=root"] if os.getuid() == 0 else []),
            *options,
        ]

    def start(self) -> None:
        settings = SETTINGS | (DURABLE if self.durable else {}) | {"port": str(self.port), "socket": str(self.socket)}
        options = [f"--{key}={value}" for key, value in (settings | self.options).items()]
        with (self.folder / "server.log").open("a") as log:
            process = subprocess.Popen(
                self._command(*options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment,
            )
        (self.folder / "pid").write_text(str(process.pid))
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if process.poll() is not None or time.monotonic() > end:
                raise Missing(f"mariadbd did not start: {(self.folder / 'server.log').read_text()}")
            time.sleep(0.05)
        process.returncode = 0  # its end is seen to by whoever stops it, so no one need warn of it

    def _answers(self) -> bool:
        with contextlib.suppress(pymysql.MySQLError):
            pymysql.connect(host="127.0.0.1", port=self.port, user=USER, password=PASSWORD).close()
            return True
        return False

    def stop(self, mode: str = "fast") -> None:
        """End it, and see that it has ended: ``fast`` as an operator would, ``immediate`` as if it had crashed."""
        pid = int((self.folder / "pid").read_text())
        end = time.monotonic() + START_SECONDS
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if mode == "fast" else signal.SIGKILL)
        while _is_alive(pid):
            if time.monotonic() > end:
                raise Missing("mariadbd did not stop")
            time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # if it is ours, it would stay as a zombie
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------- giving one


def shared() -> str:
    """Give the URL of the run's server."""
    return os.environ.get("DIBS_TEST_MYSQL") or keeping.shared("mariadb", Server.make)


def private() -> AbstractContextManager[Server]:
    """Run an instance of one test's own, which it may stop and start, and which confirms what is on the disk."""
    return keeping.private("mariadb", partial(Server.make, durable=True))
