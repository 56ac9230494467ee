"""The nodes of a cluster: who serves which slot, connections to each, and what is done when that has changed."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from redis.exceptions import AskError, ClusterDownError, MasterDownError, MovedError, NoScriptError, TryAgainError

from dibs.domain.errors import StoreUnavailable
from dibs.stores.common.pool import Pool
from dibs.stores.redis.errors import FAILURES, is_sound, translate
from dibs.stores.redis.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.stores.redis.address import Address

logger = logging.getLogger("dibs")

Node = tuple[str, int]  # host, port

_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2)  # before it is tried again; the last one for all that follow


class Nodes:
    """What one event loop knows of a cluster. It may be out of date: the nodes themselves say so."""

    def __init__(
        self,
        address: Address,
        changed: Callable[[], None] = lambda: None,
        broken: Callable[[Node], None] = lambda _: None,
    ) -> None:
        self._address, self._changed, self._broken = address, changed, broken
        self._seeds: list[Node] = [(address.host, address.port), *address.others]
        self._pools: dict[Node, Pool[Link]] = {}
        self._starts: list[int] = []
        self._owners: list[Node] = []
        self._doubt = True  # whether what is known is to be looked up before it is used again
        self._suspects: set[Node] = set()  # who did not answer, and is not asked first
        self._looking: asyncio.Task[None] | None = None

    # Asking

    async def call(self, slot: int, head: Sequence[Any], text: bytes, words: Sequence[Any]) -> Any:
        """Run a script where its keys are. Nothing is sent again that may have been done."""
        node, asking, turns = await self._master(slot), False, 0
        end = time.monotonic() + self._address.timeout
        while True:
            turns += 1
            try:
                return await self._at(node, head, text, words, asking=asking)
            except MovedError as error:  # refused as a whole, as are all of these
                node, asking, self._doubt = (error.host or node[0], error.port), False, True
                trouble: Exception = error
            except AskError as error:
                node, asking, trouble = (error.host or node[0], error.port), True, error
            except (TryAgainError, ClusterDownError, MasterDownError) as error:
                # The slot is on its way from one node to another, or has no master at the moment.
                await asyncio.sleep(_PAUSES[min(turns, len(_PAUSES)) - 1])
                self._doubt = self._doubt or not isinstance(error, TryAgainError)
                node, asking, trouble = await self._master(slot), False, error
            except (*FAILURES, StoreUnavailable) as error:
                if isinstance(error, StoreUnavailable) or not is_sound(error):
                    self._suspect(node)
                raise error if isinstance(error, StoreUnavailable) else translate(error, self._name(node)) from error
            if time.monotonic() > end:
                raise translate(trouble, self._name(node)) from trouble

    async def command(self, node: Node, *words: Any) -> Any:
        """Run a command on one node."""
        try:
            async with self._pool(node).connection() as link:
                return await link.call(*words)
        except FAILURES as error:
            raise translate(error, self._name(node)) from error

    async def _at(self, node: Node, head: Sequence[Any], text: bytes, words: Sequence[Any], *, asking: bool) -> Any:
        async with self._pool(node).connection() as link:
            if asking:
                await link.call(b"ASKING")
            try:
                return await link.call(*head, *words)
            except NoScriptError:
                if asking:
                    await link.call(b"ASKING")
                return await link.call(b"EVAL", text, *head[2:], *words)

    def _pool(self, node: Node) -> Pool[Link]:
        pool = self._pools.get(node)
        if pool is None:
            address = self.address_of(node)
            pool = self._pools[node] = Pool(lambda: Link.connect(address), address.pool, lambda: self._broken(node))
        return pool

    def address_of(self, node: Node) -> Address:
        """Say how one node is reached."""
        return self._address._replace(host=node[0], port=node[1], name=self._name(node))

    def _name(self, node: Node) -> str:
        return f"{self._address.name} at {node[0]}:{node[1]}"

    # Who serves what

    def owners(self, slots: Sequence[int]) -> dict[Node, list[int]] | None:
        """Say who serves these slots, as far as is known; none if it is to be looked up first."""
        if self._doubt:
            return None
        found: dict[Node, list[int]] = {}
        for slot in slots:
            found.setdefault(self._owner(slot), []).append(slot)
        return found

    async def masters(self) -> list[Node]:
        """Name the nodes that serve slots."""
        await self.look()
        return list(dict.fromkeys(self._owners))

    async def _master(self, slot: int) -> Node:
        if self._doubt:
            await self.look()
        return self._owner(slot)

    def _owner(self, slot: int) -> Node:
        return self._owners[bisect_right(self._starts, slot) - 1]

    def _suspect(self, node: Node) -> None:
        self._doubt = True
        self._suspects.add(node)

    def doubt(self) -> None:
        """Look it up before the next call."""
        self._doubt = True

    async def look(self) -> None:
        """Ask who serves what; many who want to know at once ask once."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        await asyncio.shield(self._looking)

    async def _look(self) -> None:
        known = list(dict.fromkeys([*self._owners, *self._pools, *self._seeds]))
        first = [node for node in known if node not in self._suspects] or known
        asked = {asyncio.ensure_future(self._slots(node)): node for node in first}
        trouble: BaseException | None = None
        try:
            while asked:
                done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    node = asked.pop(task)
                    error = task.exception()
                    if error is None and task.result():
                        self._believe(task.result())
                        return
                    trouble = error or trouble
                    self._suspects.add(node)
        finally:
            for task in asked:
                task.cancel()
        self._suspects.clear()  # no one who was asked answers: next time all are
        raise trouble or StoreUnavailable(
            f"{self._address.name}: no node serves any slots", hint="Make a cluster of it: redis-cli --cluster create."
        )

    def _believe(self, spans: list[tuple[int, int, Node]]) -> None:
        before = self._starts, self._owners
        spans = sorted(spans)
        self._starts = [0, *(first for first, _, _ in spans[1:])]
        self._owners = [node for _, _, node in spans]
        self._doubt = False
        if before != (self._starts, self._owners):
            logger.debug(
                "%s: slots are at %s now", self._address.name, dict(zip(self._starts, self._owners, strict=True))
            )
            for node in self._suspects.difference(self._owners, self._seeds).intersection(self._pools):
                self._pools.pop(node).terminate()
            self._changed()
        self._suspects.clear()

    async def _slots(self, node: Node) -> list[tuple[int, int, Node]]:
        """Ask one node: first and last slot of each span, and its master."""
        found: list[Any] = await self.command(node, b"CLUSTER", b"SLOTS")
        return [
            (first, last, (master[0].decode() if master[0] else node[0], master[1]))
            for first, last, master, *_ in found
        ]

    # The end

    async def close(self) -> None:
        """Let go of all connections."""
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait({self._looking}, timeout=1.0)
        for pool in self._pools.values():
            await pool.close()

    def terminate(self) -> None:
        """Cut all connections, without waiting."""
        if self._looking is not None:
            self._looking.cancel()
        for pool in self._pools.values():
            pool.terminate()
