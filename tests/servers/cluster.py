"""A real Redis Cluster on loopback: three masters with a replica each, for a run of the tests or for one of them.

In this order: the URL in DIBS_TEST_REDIS_CLUSTER (keys are made in it under prefixes of the tests' own, and removed);
six servers, found as a single one is. It makes itself, without redis-cli. A test that breaks things has one to itself
(``private``): there it may pause, kill and restart nodes, fail over, and move slots, while others go on undisturbed.
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import redis as driver

from tests.servers import keeping, redis
from tests.servers.keeping import Missing

MASTERS, SLOTS = 3, 16384
NODE_TIMEOUT = 1.5  # seconds until a silent master is taken for dead
SETTINGS = {
    "databases": "1",
    "cluster-enabled": "yes",
    "cluster-node-timeout": str(round(1000 * NODE_TIMEOUT)),
    "cluster-allow-replica-migration": "no",  # each keeps the replica that it has
    "repl-diskless-sync-delay": "0",
    "repl-ping-replica-period": "1",
}
SECONDS, LOOK = 40.0, 0.02


class Node(redis.Server):
    """One of the six."""

    @cached_property
    def id(self) -> str:
        """Its name for life; once it was asked, it is known also while the node does not answer."""
        return str(self.ask("CLUSTER", "MYID"))

    @property
    def is_master(self) -> bool:
        return bool(self.ask("ROLE")[0] == "master")

    @property
    def slots(self) -> int:
        """How many it serves, as it sees it itself."""
        line = next(line for line in _view_of(self) if "myself" in line[2])
        spans = [part.split("-") for part in line[8:] if not part.startswith("[")]
        return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)

    def info(self, section: str) -> dict[str, str]:
        return {name: str(value) for name, value in self.ask("INFO", section).items()}


class Server:
    """Six nodes that are one cluster."""

    def __init__(
        self, folder: Path | str, program: Path | str, ports: list[list[int]], settings: dict[str, str] | None = None
    ) -> None:
        self.folder, self.program, self.ports = Path(folder), Path(program), ports
        self._failed_over = -SECONDS
        self.nodes = [
            Node(self.folder / str(number), program, port, {**SETTINGS, **(settings or {}), "cluster-port": str(bus)})
            for number, (port, bus) in enumerate(ports)
        ]

    @property
    def state(self) -> list[Any]:
        return [str(self.folder), str(self.program), self.ports]

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.ports[0][0]}"

    @classmethod
    def make(cls, folder: Path, program: Path, settings: dict[str, str] | None = None) -> "Server":
        ports = _free_ports(4 * MASTERS)
        pairs = [[port, bus] for port, bus in zip(ports[::2], ports[1::2], strict=True)]
        server = cls(folder, program, pairs, settings)
        for node in server.nodes:
            node.folder.mkdir()
        return server

    # Its life

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self._introduce()
        self.await_whole()

    def stop(self, mode: str = "fast") -> None:
        for node in self.nodes:
            with contextlib.suppress(FileNotFoundError):  # it was never started
                node.stop(mode)

    def _introduce(self) -> None:
        """Share out the slots, let everyone meet, and give each master its replica."""
        masters, replicas = self.nodes[:MASTERS], self.nodes[MASTERS:]
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, node in enumerate(masters):
            first, end = number * SLOTS // MASTERS, (number + 1) * SLOTS // MASTERS
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for number, node in enumerate(self.nodes):
            for port, bus in self.ports[:number]:
                node.ask("CLUSTER", "MEET", "127.0.0.1", port, bus)
        everyone = {node.id for node in self.nodes}
        _until("all know each other", lambda: all(self._known_by(node) == everyone for node in self.nodes))
        for master, replica in zip(masters, replicas, strict=True):
            replica.ask("CLUSTER", "REPLICATE", master.id)

    @staticmethod
    def _known_by(node: Node) -> set[str]:
        lines = _view_of(node)
        return {line[0] for line in lines if "handshake" not in line[2] and line[7] == "connected"}

    # What it looks like

    @property
    def alive(self) -> list[Node]:
        """Tell which nodes answer."""
        return [node for node in self.nodes if _answers(node)]

    @property
    def masters(self) -> list[Node]:
        """Tell which nodes are masters and well."""
        return [self.node(line[0]) for line in self._view() if "master" in line[2] and "fail" not in line[2]]

    def node(self, id: str) -> Node:
        return next(node for node in self.nodes if node.id == id)

    def replica_of(self, master: Node) -> Node:
        id = master.id
        return next(self.node(line[0]) for line in self._view() if line[3] == id and "fail" not in line[2])

    @staticmethod
    def slot_of(key: str) -> int:
        return int(driver.crc.key_slot(key.encode()))

    def master_of(self, slot: int) -> Node:
        """Find who serves a slot."""
        port = _owner(self._best_informed(), slot)
        return next(node for node in self.nodes if node.port == port)

    def is_whole(self) -> bool:
        """Say whether every node answers, agrees, and every master has a replica that is up to date."""
        alive = self.alive
        if len(alive) < len(self.nodes):
            return False
        views = [_view_of(node) for node in alive]
        roles = [{(line[0], "master" in line[2], line[3]) for line in view} for view in views]
        healthy = all("fail" not in line[2] and line[7] == "connected" for view in views for line in view)
        followed = {line[3] for line in views[0]} - {"-"}
        states = ["cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in alive]
        linked = [node.info("replication").get("master_link_status", "up") for node in alive]
        return (
            healthy
            and all(role == roles[0] for role in roles)
            and len(followed) == MASTERS
            and all(states)
            and set(linked) == {"up"}
        )

    def await_whole(self) -> None:
        _until("the cluster is whole", self.is_whole)

    def _view(self) -> list[list[str]]:
        return _view_of(self._best_informed())

    def _best_informed(self) -> Node:
        """Choose whom to ask: one that was paused may not have heard yet that it was replaced."""
        return max(self.alive, key=_epoch)

    # What a test does to it

    def fail_over(self, master: Node) -> Node:
        """Let a master's replica take over while all are well; say who it is once everyone knows."""
        # Masters vote for the same shard only once in two node timeouts.
        time.sleep(max(0.0, self._failed_over + 2.5 * NODE_TIMEOUT - time.monotonic()))
        self.await_whole()
        replica = self.replica_of(master)

        def asked() -> bool:
            """Ask again for what was given up: on a busy machine the two may not agree in time."""
            if not replica.is_master:
                replica.ask("CLUSTER", "FAILOVER")
                _until_then(lambda: replica.is_master, 6.0)
            return replica.is_master

        _until("the replica has taken over", asked)
        self.await_master(replica)
        self._failed_over = time.monotonic()
        return replica

    def await_master(self, node: Node) -> None:
        """Wait until a node is a master, and every node that answers knows it."""
        id = node.id

        def known() -> bool:
            views = [_view_of(other) for other in self.alive]
            return all(any(line[0] == id and "master" in line[2] and line[8:] for line in view) for view in views)

        _until("the new master is known", known)

    def move(self, slot: int, to: Node) -> None:
        """Move a slot with all its keys."""
        self.begin_move(slot, to)
        while self.move_keys(slot, to, 100):
            pass
        self.end_move(slot, to)

    def begin_move(self, slot: int, to: Node) -> None:
        """From here on keys that are not in the old place any more are answered with ASK, and TRYAGAIN for some."""
        source = self.master_of(slot)
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)

    def move_keys(self, slot: int, to: Node, number: int) -> int:
        """Move so many of its keys; say how many there were."""
        source = self.master_of(slot)
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, number)
        if keys:
            source.ask("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int, to: Node) -> None:
        id, source = to.id, self.master_of(slot)
        for node in (to, source, *self.masters):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", id)
        _until("the slot has moved", lambda: all(_owner(node, slot) == to.port for node in self.alive))


# ---------------------------------------------------------------- how it is done


def _view_of(node: Node) -> list[list[str]]:
    """Ask a node of all: id, address, flags, master, ping, pong, epoch, link, slots."""
    return [line.split(" ") for line in str(node.ask("CLUSTER", "NODES")).splitlines()]


def _epoch(node: Node) -> int:
    told = dict(line.split(":", 1) for line in str(node.ask("CLUSTER", "INFO")).splitlines())
    return int(told["cluster_current_epoch"])


def _owner(node: Node, slot: int) -> int | None:
    spans = node.ask("CLUSTER", "SLOTS")
    return next((span[2][1] for span in spans if span[0] <= slot <= span[1]), None)


def _answers(node: Node) -> bool:
    with contextlib.suppress(driver.RedisError):
        return bool(node.ask("PING", patience=0.5))
    return False


def _until(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(driver.RedisError):  # a node is on its way up or down
            if holds():
                return
        if time.monotonic() > end:
            raise Missing(f"waited {SECONDS:.0f} s until {what}")
        time.sleep(LOOK)


def _until_then(holds: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(LOOK)


def _free_ports(number: int) -> list[int]:
    """Find several at once: one that was found could be found again."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


# ---------------------------------------------------------------- giving one


def shared() -> str:
    """Give the URL of the run's cluster."""
    given = os.environ.get("DIBS_TEST_REDIS_CLUSTER")
    return given or keeping.shared("cluster", lambda folder: Server.make(folder, redis.program()))


def private(settings: dict[str, str] | None = None, *, binary: Path | None = None) -> AbstractContextManager[Server]:
    """Run a cluster of one test's own, which it may break and set up as it likes."""
    return keeping.private("cluster", partial(Server.make, program=binary or redis.program(), settings=settings))
