"""Shards: a fixed number, spread evenly over all slots, so that any number of masters has about as many each.

A queue is at home in one of them; its keys share that shard's hash tag. A queue that is spread has its jobs in several,
at equal distances, so that they are on different masters. Ids and keys are reserved in a shard of their own choice.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import TYPE_CHECKING

from dibs.stores.redis.keys import Shard

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARDS = 12
SLOTS = 16384
PARTITIONS = tuple(number for number in range(1, SHARDS + 1) if SHARDS % number == 0)
"""Over how many shards a queue may be spread."""


def slot_of(tag: str) -> int:
    """Say which slot keys with a hash tag are in; as Redis does."""
    return crc_hqx(tag.encode(), 0) % SLOTS


def _tags() -> list[str]:
    """Choose a tag for each shard, whose slot is near the middle of its share of them."""
    share = SLOTS // SHARDS
    found: dict[int, str] = {}
    number = 0
    while len(found) < SHARDS:
        slot = slot_of(str(number))
        if abs(slot % share - share // 2) < share // 8:
            found.setdefault(slot // share, str(number))
        number += 1
    return [found[place] for place in range(SHARDS)]


TAGS = _tags()


def shards(prefix: str) -> list[Shard]:
    """Give all shards of a store, in the order of their slots."""
    return [Shard(prefix, tag) for tag in TAGS]


def home(queue: str) -> int:
    """Say which shard a queue is at home in."""
    return crc_hqx(queue.encode(), 0) % SHARDS


def of_name(name: bytes) -> int:
    """Say which shard a name is reserved in."""
    return crc_hqx(name, 0) % SHARDS


class Spread:
    """Over how many shards each queue's jobs are spread."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self._partitions = dict(partitions)

    def of(self, queue: str) -> int:
        """Say over how many a queue is spread: as many as is said of it, or else of all."""
        return self._partitions.get(queue, self._partitions.get("", 1))

    def shards(self, queue: str) -> list[int]:
        """Name the shards that a queue's jobs are in."""
        number = self.of(queue)
        first = home(queue)
        return [(first + place * (SHARDS // number)) % SHARDS for place in range(number)]

    def shard(self, queue: str, id: str) -> int:
        """Say which shard a new job goes to."""
        several = self.shards(queue)
        return several[0] if len(several) == 1 else several[crc_hqx(id.encode(), 1) % len(several)]
