"""Complete, the quick way: claims that are held end in two packets. Nearly every job ends like this.

What is locked here is only what ``judge`` would let pass, and only where nothing else depends on it; all others are
read and judged one by one, by ``writing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import EventName
from dibs.stores.mysql.literals import Json, step
from dibs.stores.mysql.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from dibs.domain.transitions import Write
    from dibs.stores.mysql.turn import Turn

_NOW = statement("clock_read")
_LOCK = statement("complete_lock")
_COMPLETE = statement("complete")
_RESULT = statement("complete_result")
_LOG = statement("complete_log")


async def complete(turn: Turn, writes: Sequence[Write]) -> AbstractSet[str]:
    """Complete what can be completed the quick way; say which jobs that were."""
    quick = [(write, write.ref) for write in writes if write.event is EventName.COMPLETED and write.ref is not None]
    if not quick:
        return frozenset()
    async with turn.transaction():
        [(now,)], locked = await turn.run(
            step(_NOW, turn.told), step(_LOCK, Json([(ref.id, ref.fence, ref.token) for _, ref in quick]))
        )
        if not locked:
            return frozenset()
        held = [(quick[place - 1][0], seq) for place, seq in locked]
        seqs = tuple(seq for _, seq in held)
        await turn.commit(
            step(_COMPLETE, now, now, now, seqs),
            *(step(_RESULT, write.result_json, seq) for write, seq in held if write.result_json is not None),
            step(_LOG, seqs),
            now=now,
        )
    return {write.id for write, _ in held}
