"""Pauses: their documents are in one shard, and every shard has a copy of what they say, where claims look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.redis.cluster.together import together
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.stores.redis.part import Part

_READ = script("pause_read")
_COPY = script("pause_copy")


async def copy(parts: Sequence[Part], *, resumed: bool = False) -> None:
    """Let all shards know. What they know is as it was at one moment, and never older than what they knew."""
    changes, *paused = await parts[0].run(_READ)

    async def to(part: Part, hint: str) -> None:
        await part.run(_COPY, changes, hint, *paused)

    async def to_all(hint: str) -> None:
        await together(to(part, hint) for part in parts[1:])

    if resumed:
        await parts[0].announce(None, to_all)
    else:
        await to_all("")
