"""Examine: what may be wrong with a server, a database or its settings, each with its fix. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError, SchemaOutdated
from dibs.domain.finding import Finding, failure, ok, orphans, warning
from dibs.domain.retry import SECOND
from dibs.stores.common import examining as common
from dibs.stores.common.examining import Switch
from dibs.stores.mysql import migrate
from dibs.stores.mysql.errors import FAILURES, FORBIDDEN, READ_ONLY, UNSEEN, TooOld, code, is_broken, translate
from dibs.stores.mysql.link import OLDEST, Link, read_version
from dibs.stores.mysql.literals import step
from dibs.stores.mysql.statements import statement
from dibs.stores.mysql.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Clock
    from dibs.stores.mysql.address import Address

_SERVER = statement("examine_server")
_WRITE = statement("examine_write")
_ZONE = statement("examine_zone")
_SETTING = statement("examine_setting")
_STATUS = statement("examine_status")
_CONNECTION = statement("examine_connection")
_SNAPSHOT = statement("examine_snapshot")
_HISTORY = statement("examine_history")
_TABLE = statement("examine_table")
_ORPHAN = statement("examine_orphan")
_NOW = statement("clock_read")
_MAY = {
    "SELECT": statement("examine_select"),
    "INSERT": statement("examine_insert"),
    "UPDATE": statement("examine_update"),
    "DELETE": statement("examine_delete"),
}

KNOWN = {"MySQL": (8, 4), "MariaDB": (10, 11)}
"""The oldest that are still looked after by their own people."""
LEAST_PACKET = 4 * 2**20
"""Bytes: params of a mebibyte may be written out as twice that, and are sent with others' (test_a_small_packet)."""
LEAST_SECONDS = 60
HISTORY = 1_000_000

_LOSES = "a machine that crashes may lose jobs that were acknowledged a moment ago"
_SWITCHES = (
    Switch("innodb_flush_log_at_trx_commit", ("1", "3"), _LOSES),
    Switch(
        "innodb_flush_method",
        ("O_DIRECT", "fsync", "O_DSYNC", "O_DIRECT_NO_FSYNC", "unbuffered", "normal", "async_unbuffered"),
        "a machine that crashes may lose acknowledged jobs, or the whole database",
        breaks=True,
    ),
    Switch("innodb_doublewrite", ("ON", "DETECT_AND_RECOVER", "fast"), "a machine that crashes may leave torn pages"),
    Switch("innodb_deadlock_detect", ("ON",), "two who wait for each other do so until a time limit ends one of them"),
    Switch(
        "innodb_rollback_on_timeout",
        ("OFF",),
        "a lock that is waited for in vain rolls back all of your own transaction, where dibs undoes its part only",
    ),
)
_LOGGED = (  # where there is a binary log
    Switch("sync_binlog", ("1",), f"{_LOSES}, for what is not in the binary log is rolled back"),
    Switch("binlog_format", ("ROW", "MIXED"), "the server refuses to log what dibs does, and so to do it", breaks=True),
)
_AT_START = {"innodb_flush_method", "innodb_doublewrite", "innodb_rollback_on_timeout"}
_LIMITS = {"max_statement_time": 1.0, "max_execution_time": 0.001}  # MariaDB's and MySQL's, and their units in seconds

_COLUMN = {  # of each table, one
    "dibs_job": "seq",
    "dibs_lane": "id",
    "dibs_event": "job",
    "dibs_tag": "job",
    "dibs_tombstone": "id",
    "dibs_document": "name",
    "dibs_clock": "at",
}
_NEEDED = dict.fromkeys(_COLUMN, tuple(_MAY)) | {
    "dibs_clock": ("SELECT", "UPDATE"),
    "dibs_whole": ("SELECT",),
    "dibs_migration": ("SELECT",),
}


async def examine(address: Address, clock: Clock) -> list[Finding]:
    """Look at everything, as far as one can get."""
    try:
        link = await Link.connect(address)
    except TooOld as error:
        return [ok("reachable", address.name), failure("version", error.message, error.hint)]
    except DibsError as error:
        return [failure("reachable", error.message, error.hint)]
    try:
        return await _Examination(link, address, clock).run()
    except FAILURES as error:
        told = translate(error, address.name)
        return [failure("reachable", told.message, told.hint)]
    finally:
        await link.close()


def version(text: str) -> Finding:
    """Judge the server's version."""
    kind, numbers = read_version(text)
    wanted = f"{kind} {'.'.join(map(str, KNOWN[kind]))}"
    works, cared_for = numbers >= OLDEST[kind], numbers >= KNOWN[kind]
    return common.version(f"{kind} {'.'.join(map(str, numbers))}", wanted, works=works, cared_for=cared_for)


class _Examination:
    def __init__(self, link: Link, address: Address, clock: Clock) -> None:
        self._turn = Turn(link, None)
        self._mariadb, self._address, self._clock = link.mariadb, address, clock
        self._found: list[Finding] = []

    async def run(self) -> list[Finding]:
        add = self._found.append
        add(ok("reachable", self._address.name))
        before = self._clock.now()
        [(text, me, database, theirs, read_only)] = await self._turn.fetch(_SERVER)
        after = self._clock.now()
        add(version(text))
        if read_only or not await self._may_write():
            fix = "Connect to the primary, or: SET GLOBAL read_only = OFF."
            add(failure("writable", "the server takes no writes: it is a replica, or set to be read-only", fix))
        add(common.skew(theirs, before, after))
        await self._settings()
        await self._connections()
        await self._snapshots(me)
        if await self._schema(me, database):
            await self._tables()
            await self._orphans()
        return self._found

    async def _may_write(self) -> bool:
        try:
            async with self._turn.transaction((_WRITE,)):
                await self._turn.run()
        except FAILURES as error:
            if code(error) not in READ_ONLY:
                raise
            return False
        return True

    async def _may(self, sql: str) -> bool:
        """Try what changes nothing; say whether the user may. Whatever else is in the way has its own line."""
        try:
            await self._turn.fetch(sql)
        except FAILURES as error:
            if is_broken(error):
                raise
            return code(error) not in FORBIDDEN
        return True

    async def _settings(self) -> None:
        switches = (*_SWITCHES, *_LOGGED)
        names = (*(switch.name for switch in switches), *_LIMITS, "log_bin", "max_allowed_packet", "wait_timeout")
        settings = {name: str(value) for name, value in await self._turn.fetch(_SETTING, names)}
        bad = common.switches(switches if settings.get("log_bin") == "ON" else _SWITCHES, settings, _set)
        for name, unit in _LIMITS.items():
            seconds = float(settings.get(name, "0")) * unit
            if 0 < seconds < LEAST_SECONDS:
                what = f"{name} is {seconds:g} s: long calls are cut in the middle"
                bad.append(warning(name, what, _set(name, "0")))
        packet, idle = int(settings["max_allowed_packet"]), int(settings["wait_timeout"])
        if packet < LEAST_PACKET:
            what = f"max_allowed_packet is {packet} bytes: jobs with large params or results cannot be stored"
            bad.append(warning("max_allowed_packet", what, _set("max_allowed_packet", str(LEAST_PACKET))))
        if self._mariadb and idle < LEAST_SECONDS:  # on MySQL dibs sets its own
            what = f"wait_timeout is {idle} s: connections that wait for work are cut, and made anew"
            bad.append(warning("wait_timeout", what, _set("wait_timeout", "28800")))
        self._found += bad or [ok("settings", "durable, and no limit in the way")]

    async def _connections(self) -> None:
        [[_, there]] = await self._turn.fetch(_STATUS)
        [(most, ours, mine)] = await self._turn.fetch(_CONNECTION)
        free = most - int(there)
        if ours and ours - mine < free:
            free, most = ours - mine, ours
        fix = "Raise max_connections (or the user's own limit), or add ?pool= with a smaller number to the URL."
        self._found.append(common.connections(max(free, 0), most, self._address.pool, fix))

    async def _snapshots(self, me: str) -> None:
        try:
            _, found, [(length,)] = await self._turn.run(
                step(_ZONE), step(_SNAPSHOT, common.shortest_age()), step(_HISTORY)
            )
        except FAILURES as error:
            if code(error) != UNSEEN:
                raise
            what = f"not looked at: {me} may not see others' transactions (GRANT PROCESS ON *.* TO {_quoted(me)};)"
            self._found.append(ok("snapshots", what))
            return
        fix = "End it (KILL), and find out who forgot it: purge cannot remove what it may still want to see."
        self._found += common.snapshots(((who, age / SECOND, bool(idle)) for who, age, idle in found), fix)
        if length > HISTORY:
            what = f"purge is {length} transactions behind: claims and searches walk over what they have left"
            fix = "End what holds it up (snapshots, above), or raise innodb_purge_threads."
            self._found.append(warning("history", what, fix))

    async def _schema(self, me: str, database: str) -> bool:
        missing: dict[str, list[str]] = {}
        for table, privileges in _NEEDED.items():
            for privilege in privileges:
                if not await self._may(_MAY[privilege].format(table=table, column=_COLUMN.get(table))):
                    missing.setdefault(table, []).append(privilege)
        if "dibs_migration" not in missing:  # else no one can say which version it is
            try:
                ahead = await migrate.check(self._turn, self._address.name)
            except SchemaOutdated as error:
                self._found.append(failure("schema", error.message, error.hint))
                return False
            self._found.append(common.schema(ahead, f", in the database {database!r}"))

        def grant(table: str, privileges: Sequence[str]) -> str:
            return f"GRANT {', '.join(privileges)} ON `{database}`.{table} TO {_quoted(me)};"

        self._found += common.denied(me, missing, grant) or [common.granted(me)]
        return not missing

    async def _tables(self) -> None:
        bad: list[Finding] = []
        for name, engine, form in await self._turn.fetch(_TABLE):
            if engine != "InnoDB":
                what = f"{name} is kept by {engine}, which has no transactions: what is half done stays so"
                bad.append(failure("tables", what, f"ALTER TABLE {name} ENGINE = InnoDB;"))
            elif form == "Compressed":
                what = f"{name} is compressed, which makes every change of a job dearer"
                bad.append(warning("row_format", what, f"ALTER TABLE {name} ROW_FORMAT = DYNAMIC;"))
        self._found += bad or [ok("tables", "InnoDB, all of them")]

    async def _orphans(self) -> None:
        [(now,)] = await self._turn.fetch(_NOW, None)
        late, old = now - common.micros(common.LATE_SECONDS), now - common.micros(common.OLD_SECONDS)
        [found] = await self._turn.fetch(_ORPHAN, late, old)
        self._found += orphans(*found)


def _set(name: str, value: str) -> str:
    if name in _AT_START:
        return f"Put {name} = {value} into the server's configuration, and restart it."
    return f"SET GLOBAL {name} = {value}; and put it into the server's configuration."


def _quoted(user: str) -> str:
    name, _, host = user.rpartition("@")
    return "@".join("'{}'".format(part.replace("'", "''")) for part in (name, host))
