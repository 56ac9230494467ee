"""Examine: what may be wrong with a server, a database or its settings, each with its fix. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.domain.errors import DibsError, SchemaOutdated
from dibs.domain.finding import Finding, failure, ok, orphans, skew, warning
from dibs.domain.retry import SECOND
from dibs.stores.postgres import migrate
from dibs.stores.postgres.errors import FAILURES, translate
from dibs.stores.postgres.pool import Pool
from dibs.stores.postgres.statements import statement

if TYPE_CHECKING:
    from dibs.clock import Clock
    from dibs.stores.postgres.address import Address
    from dibs.stores.postgres.pool import Connection

_SERVER = statement("examine_server")
_SETTING = statement("examine_setting")
_CONNECTION = statement("examine_connection")
_PRIVILEGE = statement("examine_privilege")
_SNAPSHOT = statement("examine_snapshot")
_TABLE = statement("examine_table")
_ORPHAN = statement("examine_orphan")

OLDEST, KNOWN = 130000, 14  # what may work; the oldest that is still looked after by PostgreSQL's own people
SNAPSHOT_SECONDS = 300.0
IDLE_SECONDS = 60.0
LATE_SECONDS = 60.0
OLD_SECONDS = 3600.0
DEAD_ROWS = 100_000

# name: what is good, what another value does, and how to undo it
_SWITCHES = {
    "fsync": ("on", "a machine that crashes may lose acknowledged jobs, or the whole database"),
    "synchronous_commit": ("on", "a server that crashes may lose jobs that it acknowledged a moment ago"),
    "full_page_writes": ("on", "a machine that crashes may leave torn pages"),
    "autovacuum": ("on", "dead rows are never removed, and everything becomes slower"),
    "track_counts": ("on", "autovacuum does not know what to do without it"),
    "default_transaction_isolation": ("read committed", "claims collide and are tried again, instead of passing by"),
}
_BREAKS = {"fsync"}  # a promise, and not only the pace
_FINE = {"synchronous_commit": {"on", "local", "remote_write", "remote_apply"}}

# name: from how many of its milliseconds on it is in no one's way
_LIMITS = {"statement_timeout": 60_000, "idle_session_timeout": None, "transaction_timeout": 60_000}


async def examine(address: Address, clock: Clock) -> list[Finding]:
    """Look at everything, as far as one can get."""
    pool = Pool(address)
    try:
        connection = await pool.connect()
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
    if number < OLDEST:
        return failure("version", f"{name} is too old", f"Upgrade to PostgreSQL {KNOWN} or newer.")
    if number // 10000 < KNOWN:
        return warning("version", f"{name} gets no more fixes", f"Upgrade to PostgreSQL {KNOWN} or newer.")
    return ok("version", name)


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
        add(skew(server["now"], before, after))
        await self._settings()
        await self._connections()
        # What may not be read cannot be looked at, not even for the schema's version.
        if await self._privileges(server["me"]) and await self._schema():
            self._found.append(ok("privileges", f"{server['me']} may do all that dibs does"))
            await self._table()
            await self._orphans()
        return self._found

    async def _settings(self) -> None:
        names = [*_SWITCHES, *_LIMITS, "idle_in_transaction_session_timeout"]
        settings = dict(await self._connection.fetch(_SETTING, names))
        bad: list[Finding] = []
        for name, (good, harm) in _SWITCHES.items():
            value = settings.get(name, good)
            if value not in _FINE.get(name, {good}):
                tell = failure if name in _BREAKS else warning
                bad.append(tell(name, f"{name} is {value}: {harm}", _set(name, good)))
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
        if found["free"] < needed:
            what = f"{found['free']} of {found['most']} connections are free, and one process may use {needed}"
            fix = "Raise max_connections, use PgBouncer, or add ?pool= with a smaller number to the URL."
            self._found.append(warning("connections", what, fix))
        else:
            self._found.append(ok("connections", f"{found['free']} of {found['most']} are free"))
        old = await self._connection.fetch(_SNAPSHOT, min(SNAPSHOT_SECONDS, IDLE_SECONDS))
        for who, age, idle in old:
            if age and age < (IDLE_SECONDS if idle else SNAPSHOT_SECONDS):
                continue
            what = f"{who} has held a transaction open for {age:.0f} s" if age else f"{who} is used by no one"
            fix = "End it, and find out who forgot it: vacuum cannot remove what it may still want to see."
            self._found.append(warning("snapshots", what, fix))
        if all(finding.code != "snapshots" for finding in self._found):
            self._found.append(ok("snapshots", "no transaction has been open for long"))

    async def _schema(self) -> bool:
        try:
            schema = await migrate.check(self._connection, self._address.name)
        except SchemaOutdated as error:
            self._found.append(failure("schema", error.message, error.hint))
            return False
        self._found.append(ok("schema", f"up to date, in the schema {schema!r}"))
        return True

    async def _privileges(self, me: str) -> bool:
        missing: dict[str, list[str]] = {}
        for name, privilege in await self._connection.fetch(_PRIVILEGE):
            missing.setdefault(name, []).append(privilege)
        for name, privileges in missing.items():
            what = f"{me} may not {', '.join(privileges)} on {name}"
            kind = "SEQUENCE " if name == "dibs_clock" else ""
            fix = f'GRANT {", ".join(privileges)} ON {kind}{name} TO "{me}";'
            self._found.append(failure("privileges", what, fix))
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
        [found] = await self._connection.fetch(_ORPHAN, now, _micros(LATE_SECONDS), _micros(OLD_SECONDS))
        self._found += orphans(found["late"], found["old"])


def _set(name: str, value: str) -> str:
    return f"ALTER SYSTEM SET {name} = '{value}'; SELECT pg_reload_conf(); (or where the role or the database sets it)"


def _micros(seconds: float) -> int:
    return round(seconds * SECOND)
