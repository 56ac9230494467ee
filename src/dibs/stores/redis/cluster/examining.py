"""Examine a cluster: whether it is whole, and each of its masters as a single server is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dibs.domain.errors import DibsError
from dibs.domain.finding import Finding, Level, failure, ok, warning
from dibs.stores.redis import examining
from dibs.stores.redis.cluster.nodes import Nodes
from dibs.stores.redis.cluster.shards import SLOTS, shards, slot_of

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.stores.redis.address import Address
    from dibs.stores.redis.cluster.nodes import Node

_WORST = tuple(Level)


async def examine(address: Address, clock: Clock) -> list[Finding]:
    """Look at everything, as far as one can get."""
    nodes = Nodes(address)
    try:
        masters = await nodes.masters()
        found = await _cluster(nodes, masters[0])
        of_node = nodes.owners([slot_of(shard.tag) for shard in shards(address.prefix)]) or {}
    except DibsError as error:
        return [failure("reachable", error.message, error.hint)]
    finally:
        await nodes.close()
    each: dict[Node, list[Finding]] = {}
    for node in masters:
        theirs = [shard for shard in shards(address.prefix) if slot_of(shard.tag) in of_node.get(node, [])]
        each[node] = await examining.examine(nodes.address_of(node), theirs, clock, of_cluster=True)
    return [*found, *_together(each)]


async def _cluster(nodes: Nodes, node: Node) -> list[Finding]:
    info = dict(
        line.split(":", 1) for line in (await nodes.command(node, "CLUSTER", "INFO")).decode().split("\r\n") if line
    )
    spans: list[Any] = await nodes.command(node, "CLUSTER", "SLOTS")
    if info["cluster_state"] != "ok":
        served = int(info["cluster_slots_ok"])
        what = f"the cluster is down: {SLOTS - served} of its {SLOTS} slots have no master that answers"
        return [failure("cluster", what, "Bring a node back, or let a replica take over: CLUSTER FAILOVER TAKEOVER.")]
    alone = sorted({f"{span[2][0].decode()}:{span[2][1]}" for span in spans if len(span) == 3})  # noqa: PLR2004 - no replica
    masters = len({(span[2][0], span[2][1]) for span in spans})
    if alone:
        what = f"{', '.join(alone)}: no replica, so no one takes over if it goes"
        return [warning("cluster", what, "Add one: redis-cli --cluster add-node … --cluster-slave.")]
    return [ok("cluster", f"{masters} masters, each with a replica, serve all slots")]


def _together(each: dict[Node, list[Finding]]) -> list[Finding]:
    """Say once what is the same everywhere; else what is the worst, and where."""
    found: list[Finding] = []
    for code in dict.fromkeys(finding.code for findings in each.values() for finding in findings):
        told = [(node, finding) for node, findings in each.items() for finding in findings if finding.code == code]
        level = max((finding.level for _, finding in told), key=_WORST.index)
        worst = [(node, finding) for node, finding in told if finding.level == level]
        if level is Level.OK:
            found.append(worst[0][1] if code != "reachable" else ok(code, f"{len(told)} masters"))
            continue
        for node, finding in worst:
            found.append(replace(finding, message=f"{node[0]}:{node[1]}: {finding.message}"))
    return found
