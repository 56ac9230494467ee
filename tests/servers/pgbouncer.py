"""A private PgBouncer in transaction mode, in front of the tests' PostgreSQL: found or installed as the server is.

In this order: a binary on the machine, Debian's package (with apt-get as root, unpacked without). It refuses to run as
root too. There is no skipping: a run without one fails.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.servers.keeping import Missing, attempt, cache, free_port
from tests.servers.postgres import as_user

OPTIONS = "?listen=no&prepared=no"
"""What the URL needs in transaction mode."""

_SETTINGS = """[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = {mode}
default_pool_size = 8
max_client_conn = 500
server_check_delay = 0
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pgbouncer.pid
"""


def binary() -> Path:
    """Find it, installing it if need be."""
    for look in (_on_the_machine, _from_debian):
        found = look()
        if found is not None:
            return found
    raise Missing("PgBouncer is needed by the tests and could not be found or installed (apt-get install pgbouncer).")


def _on_the_machine() -> Path | None:
    found = shutil.which(
        "pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    )
    return None if found is None else Path(found)


def _from_debian() -> Path | None:
    if not Path("/etc/debian_version").exists():
        return None
    if os.getuid() == 0:
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        attempt(["apt-get", "update", "-qq"], env=env)
        attempt(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "pgbouncer"], env=env)
        return _on_the_machine()
    target = cache() / "pgbouncer"
    target.mkdir(exist_ok=True)
    attempt(["apt-get", "download", "pgbouncer", "libc-ares2", "libevent-2.1-7"], cwd=target)
    for archive in target.glob("*.deb"):
        attempt(["dpkg-deb", "-x", str(archive), str(target)])
    found = target / "usr" / "sbin" / "pgbouncer"
    return found if found.exists() else None


@contextlib.contextmanager
def running(url: str, mode: str = "transaction") -> Iterator[int]:
    """Run one in front of the server that a URL names; give its port."""
    program, parts = binary(), urlsplit(url)
    folder = Path(tempfile.mkdtemp(prefix="dibs-pgbouncer-"))
    port = free_port()
    settings = _SETTINGS.format(host=parts.hostname, port=parts.port, own=port, folder=folder, mode=mode)
    (folder / "pgbouncer.ini").write_text(settings)
    (folder / "users.txt").write_text(f'"{parts.username}" ""\n')
    folder.chmod(0o755)
    if as_user():
        for each in (folder, *folder.iterdir()):
            shutil.chown(each, user=as_user()["user"])
    environment = os.environ | {"LD_LIBRARY_PATH": str(_libraries(program))}
    process = subprocess.Popen(
        [program, "-q", folder / "pgbouncer.ini"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        **as_user(),
    )
    try:
        _await(process, port, folder)
        yield port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _libraries(program: Path) -> str:
    """Say where an unpacked one finds what it needs; an installed one needs no help."""
    return ":".join(map(str, program.parents[1].glob("lib/*-linux-gnu"))) if "dibs-servers" in str(program) else ""


def _await(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        log = folder / "pgbouncer.log"
        if process.poll() is not None or time.monotonic() > deadline:
            raise Missing(f"PgBouncer did not start: {log.read_text() if log.exists() else 'it said nothing'}")
        time.sleep(0.02)


def through(port: int, url: str, options: str = OPTIONS) -> str:
    """Give the same database's URL, by way of PgBouncer."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}")) + options
