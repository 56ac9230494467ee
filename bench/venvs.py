"""An environment for each peer, so that none decides about another's versions, or about ours.

Made on first use from ``requirements/bench-NAME.txt``, and again when that or the Python changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".bench" / "venvs"
PINS = ROOT / "requirements"
PINNED = re.compile(r"[A-Za-z0-9._-]+==\S+( ;.*?)?( +--hash=sha256:[0-9a-f]{64})+\s*")
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""What would lead a peer's Python back into ours."""


class NoPeer(Exception):
    """A peer cannot be measured. It is not left out for that: the best of the others is not the best of all."""


def python_of(peer: str, *, pins: Path = PINS, home: Path = HOME) -> Path:
    """The Python of the peer's environment, which is made if it is missing or out of date."""
    requirements = pins / f"bench-{peer}.txt"
    check_pins(requirements)
    venv = home / peer
    stamp, wanted = venv / "stamp", _fingerprint(requirements)
    with _locked(home / f"{peer}.lock"):
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
            _make(peer, venv, requirements)
            stamp.write_text(wanted, encoding="utf-8")
    return venv / "bin" / "python"


def check_pins(requirements: Path) -> None:
    """Every requirement is exact and hashed, and none says where to get it: that is the reader's business."""
    if not requirements.is_file():
        raise NoPeer(f"there is no {requirements}")
    text = requirements.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in lines:
        if not PINNED.fullmatch(line):
            name = line.split(" --hash")[0].strip()
            raise NoPeer(f"{requirements.name}: not an exact version with its hashes: {name}")
    if not lines:
        raise NoPeer(f"{requirements.name} names nothing")


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in FOREIGN}


def _make(peer: str, venv: Path, requirements: Path) -> None:
    print(f"bench: making an environment for {peer} ...", file=sys.stderr, flush=True)
    _call(peer, sys.executable, "-m", "venv", "--clear", str(venv))
    pip = (str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input")
    _call(peer, *pip, "--require-hashes", "-r", str(requirements))


def _call(peer: str, *command: str) -> None:
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NoPeer(f"{peer} could not be installed: {said[-1] if said else f'exit status {done.returncode}'}")


def _fingerprint(requirements: Path) -> str:
    return hashlib.sha256(repr(sys.version_info[:3]).encode() + requirements.read_bytes()).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Race: two runs make the same environment at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
