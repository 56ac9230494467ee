"""The scripts: one to a file in ``lua/``, opened by a comment that names its keys, its race and what it returns.

A line ``-- KEYS meta pending`` says which keys of a shard it is given; they are its locals META and PENDING. A line
``-- WITH clock`` says which files of ``lua/parts`` are put before it.
"""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dibs.stores.redis.keys import Shard

_WORDS = re.compile(r"^-- (KEYS|WITH) (.+)$", re.MULTILINE)


class Script(NamedTuple):
    """A script as the server has it."""

    name: str
    text: bytes
    sha: str
    kinds: tuple[str, ...]

    def keys(self, shard: Shard) -> list[str]:
        """Name the keys that it is given."""
        return [shard.key(kind) for kind in self.kinds]


def script(name: str) -> Script:
    """Read one, with the parts that it needs."""
    folder = files(__package__).joinpath("lua")
    source = folder.joinpath(f"{name}.lua").read_text("utf-8")
    words = {key: tuple(value.split()) for key, value in _WORDS.findall(source)}
    kinds = words.get("KEYS", ())
    parts = [folder.joinpath("parts", f"{part}.lua").read_text("utf-8") for part in words.get("WITH", ())]
    locals_ = [f"local {kind.upper()} = KEYS[{place}]" for place, kind in enumerate(kinds, 1)]
    text = "\n".join([*locals_, *map(_without_comments, parts), _without_comments(source)]).encode()
    return Script(name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest(), kinds)


def _without_comments(text: str) -> str:
    """Leave out the lines that are for people."""
    return "\n".join(line for line in text.splitlines() if line and not line.lstrip().startswith("--"))
