"""What one event loop has of a cluster: connections to its nodes, listeners on them, and each shard as a part."""

from __future__ import annotations

import asyncio
from random import randrange
from typing import TYPE_CHECKING, Any, TypeVar

from dibs.domain.errors import DibsError
from dibs.stores.common.sites import Resident
from dibs.stores.redis.cluster.nodes import Nodes
from dibs.stores.redis.cluster.owners import Owners, names_of
from dibs.stores.redis.cluster.places import Places
from dibs.stores.redis.cluster.shards import SHARDS, shards, slot_of
from dibs.stores.redis.hints import Hints
from dibs.stores.redis.wake import Listener

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from dibs.domain.job import Job
    from dibs.stores.common.herald import Herald
    from dibs.stores.common.waiting import Name, Waiting
    from dibs.stores.redis.address import Address
    from dibs.stores.redis.cluster.nodes import Node
    from dibs.stores.redis.keys import Shard
    from dibs.stores.redis.part import Taken
    from dibs.stores.redis.scripts import Script

T = TypeVar("T")


class Site(Resident):
    """One event loop's part of a store."""

    def __init__(self, address: Address, told: Callable[[], int | None], waiting: Waiting, herald: Herald) -> None:
        super().__init__()
        self.told, self.waiting = told, waiting
        self.nodes = Nodes(address, self._moved, self._deafen)
        self.parts = [ShardPart(self, shard, place) for place, shard in enumerate(shards(address.prefix))]
        self.owners = Owners(self.parts)
        self.places = Places(self.parts, self.owners)
        self._turn = randrange(SHARDS)  # noqa: S311 - so that not all processes begin with the same
        # Everyone listens to all channels, so any of them will do for what no script tells.
        self.hints = Hints(herald, waiting, self.parts[0].publish)
        self._listeners: dict[Node, Listener] = {}
        self._plan: asyncio.Task[None] | None = None
        self._closed = self._begun = False

    def turn(self) -> int:
        """Say with which of several shards to begin: with another one each time."""
        self._turn += 1
        return self._turn

    async def begin(self) -> None:
        """See to it that all is closed with the loop."""
        if not self._begun:
            self._begun = True
            await self.stay()

    # Listening

    def listening(self) -> bool:
        """Say whether hints of other processes are heard on this loop, from all shards, and see to it."""
        if self._closed:
            return False
        owners = self.nodes.owners([part.slot for part in self.parts])
        if owners is None:
            if self._plan is None or self._plan.done():
                self._plan = asyncio.get_running_loop().create_task(self._look())
            return False
        if owners.keys() != self._listeners.keys():
            self._listen(owners)
        return all([listener.listening() for listener in self._listeners.values()])  # noqa: C419 - each is begun

    async def _look(self) -> None:
        try:
            await self.nodes.look()
        except DibsError:
            await asyncio.sleep(0.5)

    def _listen(self, owners: dict[Node, list[int]]) -> None:
        self._moved()
        channels = {part.slot: part.shard.key("news") for part in self.parts}
        self._listeners = {
            node: Listener(
                self.nodes.address_of(node), [channels[slot] for slot in slots], self.hints.hear, self.nodes.doubt
            )
            for node, slots in owners.items()
        }

    def _moved(self) -> None:
        """Stop listening where the shards were; whoever waits next begins anew."""
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.terminate()
        self.hints.hear(None)

    def _deafen(self, node: Node) -> None:
        """Listen there anew: what has broken a connection may have left the listener's open, and dead."""
        if node in self._listeners:
            self._listeners[node].terminate_link()

    # The end

    async def let_go(self) -> None:
        """Send what is still to be sent, and let go of all connections."""
        await self.hints.close()
        self._closed = True
        for listener in self._listeners.values():
            await listener.close()
        if self._plan is not None and not self._plan.done():
            self._plan.cancel()
            await asyncio.wait({self._plan}, timeout=1.0)
        await self.nodes.close()

    def terminate(self) -> None:
        """Cut all connections, without waiting."""
        self._closed = True
        self.hints.terminate()
        for listener in self._listeners.values():
            listener.terminate()
        if self._plan is not None:
            self._plan.cancel()
        self.nodes.terminate()


class ShardPart:
    """One shard, wherever it is."""

    def __init__(self, site: Site, shard: Shard, place: int) -> None:
        self._site, self.shard, self.place = site, shard, place
        self.slot = slot_of(shard.tag)
        self.number = b"%d" % place
        self._heads: dict[str, tuple[Any, ...]] = {}

    @property
    def told(self) -> bytes:
        """What to tell a script about the time: nothing, unless a test has put its own clock in place."""
        now = self._site.told()
        return b"" if now is None else b"%d" % now

    async def run(self, script: Script, *words: Any) -> Any:
        """Run a script, where the shard is now."""
        await self._site.begin()
        head = self._heads.get(script.name)
        if head is None:
            keys = script.keys(self.shard)
            head = self._heads[script.name] = (b"EVALSHA", script.sha, len(keys), *keys)
        return await self._site.nodes.call(self.slot, head, script.text, words)

    async def publish(self, payload: str) -> None:
        """Tell all who listen."""
        await self._site.nodes.call(self.slot, (b"SPUBLISH", self.shard.key("news")), b"", (payload,))

    async def announce(self, news: Iterable[Name] | None, run: Callable[[str], Awaitable[T]]) -> T:
        """Run what makes jobs pending, and tell of it: here, and in other processes."""
        return await self._site.hints.announce(news, run)

    async def take_keys(self, jobs: Sequence[Job]) -> Taken:
        """Take the unique keys of jobs that begin again, before they do; say whose are others' by now."""
        return await self._site.owners.take_keys(self.place, jobs)

    async def leave(self, jobs: Sequence[Job]) -> Callable[[Sequence[Job]], Awaitable[None]]:
        """Note who has the names of these before they go: no one may take them over before that."""
        owners = self._site.owners
        names = {name: job.id for job in jobs for name in names_of(job.id, job.idempotency_key, job.unique_key)}
        found = dict(zip(names, await owners.read(list(names)), strict=True))

        async def went(gone: Sequence[Job]) -> None:
            ids = {job.id for job in gone}
            await owners.drop(
                {
                    name: owner
                    for name, owner in found.items()
                    if owner is not None and names[name] in ids and owner.id == names[name]
                }
            )

        return went
