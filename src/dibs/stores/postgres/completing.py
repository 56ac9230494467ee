"""Complete, the quick way: claims that are held end in one statement. Nearly every job ends like this.

The statement lets pass only what ``judge`` would let pass, and only where nothing else depends on it; all others are
read and judged one by one, by ``writing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.job import EventName
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from dibs.domain.transitions import Write
    from dibs.stores.postgres.turn import Turn

_COMPLETE = statement("complete")


async def complete(turn: Turn, writes: Sequence[Write]) -> AbstractSet[str]:
    """Complete what can be completed the quick way; say which jobs that were."""
    quick = [(write, write.ref) for write in writes if write.event is EventName.COMPLETED and write.ref is not None]
    if not quick:
        return frozenset()
    ended = await turn.fetch(
        _COMPLETE,
        turn.told,
        [write.id for write, _ in quick],
        [ref.fence for _, ref in quick],
        [ref.token for _, ref in quick],
        [write.result_json for write, _ in quick],
    )
    return {row[0] for row in ended}
