"""Programs that examples in other languages need: found or installed, as servers are.

In this order: one on the machine that is new enough, Debian's package (with apt-get as root, unpacked without), and for
Node a wheel that ships it. There is no skipping: a run without one fails.
"""

import contextlib
import os
import re
import subprocess
from functools import cache as once
from pathlib import Path

from tests.servers.keeping import ROOT, Missing, attempt, cache, from_wheel, on_the_machine, unpack

NODE_PINS = ROOT / "requirements" / "node.txt"
NODE_NEEDED = (20, 3)


@once
def program(name: str) -> Path:
    """Find curl or jq, installing it if need be."""
    found = on_the_machine(name) or _from_debian(name)
    if found is None:
        raise Missing(f"{name} is needed by the tests and could not be found or installed (apt-get install {name}).")
    return found


@once
def node() -> Path:
    """Find a Node that is new enough, installing one if need be."""
    for look in (lambda: on_the_machine("node"), node_from_wheel):
        found = look()
        if found is not None and version(found) >= NODE_NEEDED:
            return found
    raise Missing(f"Node {'.'.join(map(str, NODE_NEEDED))} is needed by the tests and could not be found or installed.")


def version(found: Path) -> tuple[int, ...]:
    """Ask a program for its version; none at all if it cannot be run."""
    with contextlib.suppress(OSError):
        done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=60)
        if match := re.search(r"(\d+)\.(\d+)", done.stdout):
            return (int(match[1]), int(match[2]))
    return ()


def _from_debian(name: str) -> Path | None:
    if not Path("/etc/debian_version").exists():
        return None
    if os.getuid() == 0:
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        attempt(["apt-get", "update", "-qq"], env=env)
        attempt(["apt-get", "install", "-y", "-qq", "--no-install-recommends", name], env=env)
        return on_the_machine(name)
    return unpacked(cache() / f"debian-{name}", name)


LIBRARIES = {"jq": ("libjq1", "libonig5"), "curl": ("libcurl4", "libnghttp2-14", "librtmp1", "libssh2-1", "libpsl5")}


def unpacked(target: Path, name: str) -> Path | None:
    """Unpack Debian's package where anyone may; a script in front of it says where its libraries are."""
    unpack(target, (name, *LIBRARIES[name]), f"usr/bin/{name}")
    real, found = target / "usr" / "bin" / name, target / name
    if not real.exists():
        return None
    if not found.exists():
        folders = ":".join(map(str, target.glob("usr/lib/*-linux-gnu")))
        found.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={folders} exec {real} "$@"\n')
        found.chmod(0o755)
    return found


def node_from_wheel() -> Path | None:
    """Unpack the wheel that ships Node."""
    return next((path for path in from_wheel("node", NODE_PINS).rglob("bin/node") if path.is_file()), None)
