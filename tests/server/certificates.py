"""Certificates for a test: made on the spot, and trusted by no one who is not told to."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    cert: Path
    key: Path

    @property
    def options(self) -> tuple[str, ...]:
        return "--certfile", str(self.cert), "--keyfile", str(self.key)


def make(folder: Path, name: str = "localhost") -> Certificate:
    """Make a key, and a certificate for this name that is signed by itself."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    about = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([*command, *about, "-keyout", made.key, "-out", made.cert], check=True, capture_output=True)
    return made
