"""Examine: what may be wrong with a server or its settings, each with its fix. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import NoPermissionError, ResponseError

from dibs.domain.errors import DibsError
from dibs.domain.finding import Finding, failure, ok, orphans, warning
from dibs.domain.retry import SECOND
from dibs.stores.common.examining import skew
from dibs.stores.redis.errors import FAILURES, translate
from dibs.stores.redis.link import Link
from dibs.stores.redis.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Clock
    from dibs.stores.redis.address import Address
    from dibs.stores.redis.keys import Shard

_ORPHAN = script("examine_orphan")

OLDEST = (7, 0)
FULL = 0.9
LATE_SECONDS = 60
OLD_SECONDS = 3600


async def examine(
    address: Address, shards: Sequence[Shard], clock: Clock, *, of_cluster: bool = False
) -> list[Finding]:
    """Look at everything of one server, or one master of a cluster with its shards, as far as one can get."""
    try:
        link = await Link.connect(address)
    except DibsError as error:
        return [failure("reachable", error.message, error.hint)]
    try:
        return await _Examination(link, address, shards, clock, of_cluster=of_cluster).run()
    except FAILURES as error:
        told = translate(error, address.name)
        return [failure("reachable", told.message, told.hint)]
    finally:
        link.terminate()


def version(info: dict[str, str]) -> Finding:
    """Judge the server's version. Valkey tells the version of Redis that it is like, too."""
    number = info.get("valkey_version", info.get("redis_version", "0"))
    name = f"{'Valkey' if 'valkey_version' in info else 'Redis'} {number}"
    like = [int(part) for part in info.get("redis_version", "0").split(".")[:2] if part.isdecimal()]
    if tuple(like) < OLDEST:
        return failure("version", f"{name} is too old", "Upgrade to Redis 7.0 or Valkey 8, or newer.")
    return ok("version", name)


class _Examination:
    def __init__(
        self, link: Link, address: Address, shards: Sequence[Shard], clock: Clock, *, of_cluster: bool
    ) -> None:
        self._link, self._address, self._shards, self._clock = link, address, shards, clock
        self._of_cluster = of_cluster
        self._found: list[Finding] = []
        self._info: dict[str, str] = {}
        self._settings: dict[str, str] = {}

    async def run(self) -> list[Finding]:
        add = self._found.append
        add(ok("reachable", self._address.name))
        before = self._clock.now()
        seconds, rest = await self._link.call("TIME")
        after = self._clock.now()
        await self._read()
        add(version(self._info))
        add(skew(int(seconds) * SECOND + int(rest), before, after))
        self._role()
        self._eviction()
        self._persistence()
        self._replicas()
        self._clients()
        if all(finding.code not in {"version", "cluster"} or finding.level == "ok" for finding in self._found):
            await self._orphans()
        return self._found

    async def _read(self) -> None:
        text = (await self._link.call("INFO")).decode()
        self._info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        try:
            for name in ("appendfsync", "save", "min-replicas-to-write", "maxclients"):
                answer: list[Any] = await self._link.call("CONFIG", "GET", name)
                self._settings[name] = answer[1].decode() if answer else ""
        except (NoPermissionError, ResponseError):  # hosted servers do not let everyone read them
            what = "the user may not read the settings (CONFIG GET), so only a part of them was looked at"
            self._found.append(warning("settings", what, "Let it, for a moment: ACL SETUSER name +config|get."))

    def _role(self) -> None:
        if self._info.get("cluster_enabled") == "1" and not self._of_cluster:
            what = "the server is one of a cluster"
            self._found.append(failure("cluster", what, "Begin the URL with redis+cluster://."))
        if self._info.get("role") != "master":
            what = "the server is a replica, and takes no writes"
            self._found.append(failure("writable", what, "Give the URL of the master."))

    def _eviction(self) -> None:
        policy = self._info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            what = f"maxmemory-policy is {policy}: a full server throws jobs away"
            self._found.append(failure("eviction", what, "CONFIG SET maxmemory-policy noeviction; CONFIG REWRITE"))
            return
        most, used = int(self._info.get("maxmemory", "0")), int(self._info.get("used_memory", "0"))
        if most and used > FULL * most:
            what = f"{used:,} of {most:,} bytes are used: a full server refuses enqueues"
            self._found.append(warning("memory", what, "Raise maxmemory, or shorten the retention."))
        else:
            self._found.append(ok("eviction", "nothing is thrown away, and there is room"))

    def _persistence(self) -> None:
        bad: list[Finding] = []
        appends = self._info.get("aof_enabled") == "1"
        if not appends and self._settings.get("save") == "":
            what = "nothing is on the disk: a server that restarts has lost all jobs"
            bad.append(warning("persistence", what, "CONFIG SET appendonly yes; CONFIG REWRITE"))
        elif not appends and "save" in self._settings:
            often = self._settings["save"]
            what = f"only snapshots are on the disk (save {often}): a crash loses what came since the last"
            bad.append(warning("persistence", what, "CONFIG SET appendonly yes; CONFIG REWRITE"))
        elif self._settings.get("appendfsync") == "no":
            what = "appendfsync is no: a machine that crashes loses what was acknowledged in the last half minute or so"
            bad.append(warning("persistence", what, "CONFIG SET appendfsync everysec (or always); CONFIG REWRITE"))
        for name in ("aof_last_write_status", "rdb_last_bgsave_status"):
            if self._info.get(name, "ok") != "ok":
                what = f"the server could not write to its disk ({name} is {self._info[name]})"
                bad.append(failure("disk", what, "Free some space there, and look at the server's log."))
        loses = {"always": "nothing", "everysec": "what was acknowledged in the last second"}
        kept = loses.get(self._settings.get("appendfsync", ""), "what the disk did not have yet")
        self._found += bad or [ok("persistence", f"appended to the disk; a machine that crashes loses {kept}")]

    def _replicas(self) -> None:
        number = int(self._info.get("connected_slaves", "0"))
        if number == 0:
            self._found.append(ok("replicas", "none: no failover can lose what the master has acknowledged"))
        elif self._settings.get("min-replicas-to-write", "0") == "0":
            what = f"{number} replicas, and the master does not wait to see them: a failover may lose acknowledged jobs"
            fix = "CONFIG SET min-replicas-to-write 1; CONFIG SET min-replicas-max-lag 10; CONFIG REWRITE"
            self._found.append(warning("replicas", what, fix))
        else:
            self._found.append(ok("replicas", f"{number}, and the master takes no writes while too few keep up"))

    def _clients(self) -> None:
        most = int(self._settings.get("maxclients") or self._info.get("maxclients", "0"))
        free = most - int(self._info.get("connected_clients", "0"))
        needed = self._address.pool + 1  # and one that listens
        if most and free < needed:
            what = f"{free} of {most} connections are free, and one process may use {needed}"
            fix = "Raise maxclients, or add ?pool= with a smaller number to the URL."
            self._found.append(warning("connections", what, fix))
        else:
            self._found.append(ok("connections", f"{free} of {most} are free"))

    async def _orphans(self) -> None:
        late = old = 0
        for shard in self._shards:
            keys = _ORPHAN.keys(shard)
            found = await self._link.call(
                "EVAL", _ORPHAN.text, len(keys), *keys, b"", LATE_SECONDS * SECOND, OLD_SECONDS * SECOND
            )
            late, old = late + found[0], old + found[1]
        self._found += orphans(late, old)
