"""Stores that are no single server: an SQLite file, on a disk of its own where that is allowed; a Redis Cluster."""

import asyncio
import random
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import redis as driver

from dibs.stores.redis.cluster.shards import TAGS, slot_of
from soak.disks import Disk, folder_of
from soak.subjects import Trouble, end_ours
from tests.chaos.crew import ROOT
from tests.servers import cluster


class SqliteFile:
    """One file, on a disk of its own if there is one."""

    options = ""

    def __init__(self, folder: Path, disk: Disk | None) -> None:
        self._disk = disk
        self._file = (folder_of(disk) or folder) / "jobs.db"
        self.url = f"sqlite:///{self._file}"

    async def prepare(self) -> None:
        """It is made when it is opened."""

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        found: dict[str, Trouble] = {
            "held_snapshot": lambda: self._held("read"),
            "held_lock": lambda: self._held("write"),
        }
        return found | ({} if self._disk is None else {"disk_full": self._disk.full})

    @asynccontextmanager
    async def _held(self, how: str) -> AsyncIterator[None]:
        """Let a foreign program read, so that the WAL cannot be begun anew; or write, so that no one else can."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "tests.chaos.pin", str(self._file), how)
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            await process.stdout.readline()  # it holds it
            yield
        finally:
            process.stdin.close()
            await process.wait()


class RedisCluster:
    """Three masters with a replica each; the queue is spread over all of them.

    A master that dies takes what its replica has not got with it, so none is killed: they are told to change places,
    and are patient enough not to take another for dead that is only slow.
    """

    options = "?partitions=3&timeout=2"
    patience = 8.0  # twice that must pass until masters vote again for the same shard

    def __init__(self, server: cluster.Server) -> None:
        self._server = server
        self._random = random.Random(0)
        self.url = server.url

    async def prepare(self) -> None:
        for node in self._server.nodes:
            await asyncio.to_thread(node.ask, "CONFIG", "SET", "cluster-node-timeout", round(1000 * self.patience))

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        return {
            "kill_every_connection": self._disconnect,
            "failover": self._fail_over,
            "resharding": self._reshard,
            "stalled_master": self._stall,
        }

    @asynccontextmanager
    async def _disconnect(self) -> AsyncIterator[None]:
        """Let every node end all connections, ten times a second."""
        over = threading.Event()
        killing = asyncio.ensure_future(asyncio.to_thread(self._kill_until, over))
        try:
            yield
        finally:
            over.set()
            await killing

    def _kill_until(self, over: threading.Event) -> None:
        while not over.wait(0.1):
            for node in self._server.nodes:
                with driver.Redis(port=node.port) as client:
                    end_ours(client)

    @asynccontextmanager
    async def _fail_over(self) -> AsyncIterator[None]:
        """Let a master and its replica change places."""
        await asyncio.to_thread(self._server.fail_over, self._random.choice(self._server.masters))
        yield

    @asynccontextmanager
    async def _reshard(self) -> AsyncIterator[None]:
        """Move shards from one master to another while they are worked on, a few keys at a time."""
        for tag in self._random.sample(TAGS, 3):
            await asyncio.to_thread(self._move, slot_of(tag))
        yield

    def _move(self, slot: int) -> None:
        source = self._server.master_of(slot)
        target = self._random.choice([node for node in self._server.masters if node.port != source.port])
        self._server.begin_move(slot, target)
        while self._server.move_keys(slot, target, 2):
            pass
        self._server.end_move(slot, target)

    @asynccontextmanager
    async def _stall(self) -> AsyncIterator[None]:
        """Let a master do nothing for a while; it keeps its connections."""
        master = self._random.choice(self._server.masters)
        master.pause()
        try:
            yield
        finally:
            master.resume()


@contextmanager
def redis_cluster(_folder: Path) -> Iterator[RedisCluster]:
    with cluster.private() as server:
        yield RedisCluster(server)
