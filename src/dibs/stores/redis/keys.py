"""The keys: a fixed few for each shard, all under one hash tag, so that a script can name every one beforehand."""

from __future__ import annotations

from typing import NamedTuple

KINDS = {
    "meta": "hash: time of the last change, last seq",
    "ids": "hash: id -> seq",
    "idem": "hash: idempotency key -> seq",
    "unique": "hash: unique key -> seq of the unfinished job that has it",
    "body": "hash: seq -> what never changes",
    "state": "hash: seq -> what does; nothing for a job that was never claimed nor cancelled",
    "order": "sorted set by bytes: seq",
    "pending": "sorted set by bytes: queue, task, rank, due, seq, attempts left",
    "staged": "sorted set: first and last seq of a large group that is not whole yet, by when it was begun",
    "leases": "sorted set: seq and queue by the end of the lease",
    "done": "sorted set by bytes: queue, state, when it may go, seq",
    "index": "sorted set by bytes: batch or tag, seq",
    "events": "hash: seq and number -> event, from the second on",
    "gone": "hash: id -> the last event of a job that is gone",
    "graves": "sorted set by bytes: when it went, id",
    "documents": "hash: name -> document",
    "names": "sorted set by bytes: names of documents",
    "brief": "sorted set by bytes: when a document goes, its name",
    "paused": "hash: queue -> until when (0: for good)",
    "owners": "hash, of a cluster: id or key -> the job it is reserved for, and where that is",
    "passes": "hash, of a cluster: pass -> when it was made, and from which number on it is valid",
    "spread": "hash, of a cluster: queue -> over how many shards its jobs are spread",
    "calm": "string that goes by itself, of a cluster: no lease has run out, in any shard",
    "news": "channel: where jobs have become pending",
}
"""What there is in a shard."""


class Shard(NamedTuple):
    """One self-contained part of a store: some queues and all that belongs to them."""

    prefix: str
    tag: str
    database: int = 0

    def key(self, kind: str) -> str:
        """Name one of its keys."""
        # Channels are the same in all databases of a server, keys are not.
        which = f":{self.database}" if kind == "news" else ""
        return f"{self.prefix}:{{{self.tag}}}:{kind}{which}"


def single(prefix: str, database: int) -> Shard:
    """Give the one shard of a single server."""
    return Shard(prefix, "0", database)
