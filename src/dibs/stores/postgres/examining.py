"""Examine: what may be wrong with a server, a database or its settings, each with its fix. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError, SchemaOutdated
from dibs.domain.finding import Finding, failure, ok, orphans, warning
from dibs.stores.common import examining as common
from dibs.stores.common.examining import Switch
from dibs.stores.postgres import migrate
from dibs.stores.postgres.errors import FAILURES, translate
from dibs.stores.postgres.link import connect
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.clock import Clock
    from dibs.stores.postgres.address import Address
    from dibs.stores.postgres.link import Connection

_SERVER = statement("examine_server")
_SETTING = statement("examine_setting")
_CONNECTION = statement("examine_connection")
_PRIVILEGE = statement("examine_privilege")
_SNAPSHOT = statement("examine_snapshot")
_TABLE = statement("examine_table")
_ORPHAN = statement("examine_orphan")

OLDEST, KNOWN = 130000, 14  # what may work; the oldest that is still looked after by PostgreSQL's own people
DEAD_ROWS = 100_000

_SWITCHES = (
    Switch("fsync", ("on",), "a machine that crashes may lose acknowledged jobs, or the whole database", breaks=True),
    Switch(
        "synchronous_commit",
        ("on", "local", "remote_write", "remote_apply"),
        "a server that crashes may lose jobs that it acknowledged a moment ago",
    ),
    Switch("full_page_writes", ("on",), "a machine that crashes may leave torn pages"),
    Switch("autovacuum", ("on",), "dead rows are never removed, and everything becomes slower"),
    Switch("track_counts", ("on",), "autovacuum does not know what to do without it"),
    Switch(
        "default_transaction_isolation",
        ("read committed",),
        "claims collide and are tried again, instead of passing by",
    ),
)

# name: from how many of its milliseconds on it is in no one's way
_LIMITS = {"statement_timeout": 60_000, "idle_session_timeout": None, "transaction_timeout": 60_000}


async def examine(address: Address, clock: Clock) -> list[Finding]:
    """Look at everything, as far as one can get."""
    try:
        connection = await connect(address)
    except DibsError as error:
        return [failure("reachable", error.message, error.hint)]
    try:
        return await _Examination(connection, address, clock).run()
    except FAILURES as error:
        told = translate(error, address.name)
        return [failure("reachable", told.message, told.hint)]
    finally:
        connection.terminate()


def version(number: int) -> Finding:
    """Judge the server's version."""
    name = f"PostgreSQL {number // 10000}.{number % 10000}"
    return common.version(name, f"PostgreSQL {KNOWN}", works=number >= OLDEST, cared_for=number // 10000 >= KNOWN)


class _Examination:
    def __init__(self, connection: Connection, address: Address, clock: Clock) -> None:
        self._connection, self._address, self._clock = connection, address, clock
        self._found: list[Finding] = []

    async def run(self) -> list[Finding]:
        add = self._found.append
        add(ok("reachable", self._address.name))
        before = self._clock.now()
        [server] = await self._connection.fetch(_SERVER)
        after = self._clock.now()
        add(version(server["version"]))
        if server["read_only"]:
            fix = "Connect to the primary, or: ALTER DATABASE … SET default_transaction_read_only = off."
            add(failure("writable", "the server takes no writes: it is a replica, or set to be read-only", fix))
        add(common.skew(server["now"], before, after))
        await self._settings()
        await self._connections()
        # What may not be read cannot be looked at, not even for the schema's version.
        if await self._privileges(server["me"]) and await self._schema():
            self._found.append(common.granted(server["me"]))
            await self._table()
            await self._orphans()
        return self._found

    async def _settings(self) -> None:
        names = [*(switch.name for switch in _SWITCHES), *_LIMITS, "idle_in_transaction_session_timeout"]
        settings = dict(await self._connection.fetch(_SETTING, names))
        bad = common.switches(_SWITCHES, settings, _set)
        for name, most in _LIMITS.items():
            value = int(settings.get(name, "0"))
            if value and (most is None or value < most):
                harm = "connections that wait for work are cut" if most is None else "long calls are cut in the middle"
                bad.append(warning(name, f"{name} is {value} ms: {harm}", f"ALTER ROLE … SET {name} = 0;"))
        if settings.get("idle_in_transaction_session_timeout") == "0":  # elsewhere dibs has set it for itself
            what = "a transaction whose client was lost keeps its rows locked until TCP gives up, for hours"
            fix = "ALTER ROLE … SET idle_in_transaction_session_timeout = '10s';"
            bad.append(warning("idle_in_transaction_session_timeout", what, fix))
        self._found += bad or [ok("settings", "durable, vacuumed, and no time limit in the way")]

    async def _connections(self) -> None:
        [found] = await self._connection.fetch(_CONNECTION)
        needed = self._address.pool + 1  # and one that listens
        fix = "Raise max_connections, use PgBouncer, or add ?pool= with a smaller number to the URL."
        self._found.append(common.connections(found["free"], found["most"], needed, fix))
        old = await self._connection.fetch(_SNAPSHOT, common.shortest_age())
        fix = "End it, and find out who forgot it: vacuum cannot remove what it may still want to see."
        self._found += common.snapshots((tuple(row) for row in old), fix)

    async def _schema(self) -> bool:
        try:
            schema, ahead = await migrate.check(self._connection, self._address.name)
        except SchemaOutdated as error:
            self._found.append(failure("schema", error.message, error.hint))
            return False
        self._found.append(common.schema(ahead, f", in the schema {schema!r}"))
        return True

    async def _privileges(self, me: str) -> bool:
        missing: dict[str, list[str]] = {}
        for name, privilege in await self._connection.fetch(_PRIVILEGE):
            missing.setdefault(name, []).append(privilege)
        self._found += common.denied(me, missing, lambda name, privileges: _grant(me, name, privileges))
        return not missing

    async def _table(self) -> None:
        [found] = await self._connection.fetch(_TABLE)
        bad: list[Finding] = []
        if found["unvacuumed"]:
            what = "autovacuum is switched off for dibs_job: every claim becomes slower with every job"
            bad.append(warning("autovacuum", what, "ALTER TABLE dibs_job RESET (autovacuum_enabled);"))
        if found["dead"] > max(DEAD_ROWS, 2 * found["live"]):
            what = f"dibs_job has {found['dead']} dead rows and {found['live']} live ones: vacuum does not keep up"
            bad.append(warning("dead_rows", what, "VACUUM dibs_job; and see what holds it up: snapshots, above."))
        bad += [
            failure("indexes", f"the index {name} is not valid", f"REINDEX INDEX CONCURRENTLY {name};")
            for name in found["broken"]
        ]
        self._found += bad or [ok("tables", "vacuumed, and every index is valid")]

    async def _orphans(self) -> None:
        now = (await self._connection.fetch(statement("clock_read"), None))[0][0]
        [found] = await self._connection.fetch(
            _ORPHAN, now, common.micros(common.LATE_SECONDS), common.micros(common.OLD_SECONDS)
        )
        self._found += orphans(found["late"], found["old"])


def _set(name: str, value: str) -> str:
    return f"ALTER SYSTEM SET {name} = '{value}'; SELECT pg_reload_conf(); (or where the role or the database sets it)"


def _grant(me: str, name: str, privileges: Sequence[str]) -> str:
    kind = "SEQUENCE " if name == "dibs_clock" else ""
    return f'GRANT {", ".join(privileges)} ON {kind}{name} TO "{me}";'
