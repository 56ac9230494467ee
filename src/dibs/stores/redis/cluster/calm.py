"""That no lease has run out in any shard: what one process has seen, all of them believe for a moment.

A look is one call for each shard. A thousand processes that reap would each look at all of them, and all but one in
vain; so whoever has looked notes it in the first shard, where it goes by itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.domain.errors import StoreUnavailable
from dibs.stores.common.leases import LONGEST
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from dibs.stores.redis.cluster.site import Site

_CALM = script("calm")


async def seconds(site: Site) -> float:
    """Say how long that is still believed; not at all, if it is not known."""
    try:
        left: int = await site.parts[0].run(_CALM, "")
    except StoreUnavailable:  # whoever wants to know looks
        return 0.0
    # Race: the server's clock was set back since it was noted, and no one would look for as long
    # (test_a_clock_that_was_set_back_makes_no_one_believe_for_longer).
    return max(0, left) / 1000 if left <= LONGEST * 1000 else 0.0


async def note(site: Site, seconds: float) -> None:
    """Have all believe it, for so long."""
    if (left := int(seconds * 1000)) > 0:
        with suppress(StoreUnavailable):  # then each looks for itself
            await site.parts[0].run(_CALM, left)
