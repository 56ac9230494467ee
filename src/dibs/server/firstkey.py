"""The key of a first start, made when there are none at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.domain.errors import StoreUnavailable
from dibs.server import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.app import App

KEY_FILE = "dibs-admin.key"


async def first_key(app: App, *, terminal: bool, say: Callable[[str], None]) -> None:
    """Make an admin key if there are none at all: shown on a terminal, else in a file that only its owner can read."""
    broker = app.runtime.broker()
    if await keys.everything(broker):
        return
    text, key = keys.first(app.runtime.clock)
    if terminal:
        if await keys.put_first(broker, key):
            say(f"This is the first start. The admin key, shown this once: {text}")
        return
    # The file first: a key that no one could read would lock everyone out.
    path = _write_secret(text)
    if await keys.put_first(broker, key):
        say(f"This is the first start. The admin key is in {path}, which only its owner can read.")
    else:
        path.unlink()


def _write_secret(text: str) -> Path:
    for number in range(100):
        path = Path.cwd() / (KEY_FILE if number == 0 else f"{KEY_FILE}.{number}")
        with suppress(FileExistsError):
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except PermissionError:
                break
            with os.fdopen(descriptor, "w") as file:
                file.write(text + "\n")
            return path
    raise StoreUnavailable(
        f"the admin key of the first start cannot be written to {Path.cwd()}",
        hint="Start in a folder that can be written to, or make a key before: `dibs keys create`.",
    )
