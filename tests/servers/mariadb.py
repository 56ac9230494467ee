"""A private MariaDB for one run of the tests: found or installed, shared by all its processes, gone with them.

In this order: the URL in DIBS_TEST_MYSQL (of a user that may create databases; MySQL 8 will do as well), a binary on
the machine, Debian's package (with apt-get as root, unpacked without). No wheel that we know of ships the server. There
is no skipping: a run without a server fails.
"""

import contextlib
import os
import subprocess
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pymysql

from tests.servers import keeping, processes
from tests.servers.keeping import Missing, attempt, cache, environment_of, free_port, on_the_machine, unpack

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
    return on_the_machine("mariadbd")


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
    unpack(target, (PACKAGE, *LIBRARIES), "usr/sbin/mariadbd")
    found = target / "usr/sbin/mariadbd"
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
    def make(cls, folder: Path, *, durable: bool = False, options: dict[str, str] | None = None) -> "Server":
        """Make a data folder, and a user."""
        server = cls(folder, program(), free_port(), durable)
        server.options |= options or {}
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
        return environment_of(self._base)

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
        processes.start(self._command(*options), self.folder, self._answers, self._environment)

    def _answers(self) -> bool:
        with contextlib.suppress(pymysql.MySQLError):
            pymysql.connect(host="127.0.0.1", port=self.port, user=USER, password=PASSWORD).close()
            return True
        return False

    def stop(self, mode: str = "fast") -> None:
        processes.stop(self.folder, mode)

    def is_running(self) -> bool:
        return processes.is_alive(processes.number(self.folder))


# ---------------------------------------------------------------- giving one


def shared() -> str:
    """Give the URL of the run's server."""
    return os.environ.get("DIBS_TEST_MYSQL") or keeping.shared("mariadb", Server.make)


def private(options: dict[str, str] | None = None, *, within: Path | None = None) -> AbstractContextManager[Server]:
    """Run an instance of one test's own, which it may stop and start, and which confirms what is on the disk."""
    return keeping.private("mariadb", partial(Server.make, durable=True, options=options), within=within)
