"""What ``TASKS`` says of a backend, read: where the jobs are, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.settings import Settings

_SETTINGS = sorted(set(Settings.__annotations__) - {"queue", "priority"})  # these two are always Django's to say
_OURS = ("store", "database", "api_key", "imports")

_PASSED_ON = frozenset(
    {"application_name", "options", "passfile", "sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert"}
    | {"target_session_attrs"}
)
"""Options of a database that dibs's own connections have as well. Most others are about Django's alone."""
_NOT_PASSED_ON = frozenset({"service", "assume_role"})
"""Those without which it would be another database, or another user's."""


class Options(NamedTuple):
    """The ``OPTIONS`` of a backend, checked."""

    store: str | None
    database: str | None
    api_key: str | None
    imports: tuple[str, ...]
    settings: Mapping[str, Any]


def read(given: Any) -> Options:
    """Check the options, all at once, but for the settings that an app itself checks."""
    if not isinstance(given, Mapping):
        raise InvalidRequest([Problem("OPTIONS", "must be a dict")])
    problems = [
        Problem(str(name), f"is not an option; there are {', '.join((*_OURS, *_SETTINGS))}")
        for name in given
        if name not in _OURS and name not in _SETTINGS
    ]
    texts = ("store", "database", "api_key")
    problems += [Problem(name, "must be a text") for name in texts if not isinstance(given.get(name), str | None)]
    imports = given.get("imports", ())
    if isinstance(imports, str) or not isinstance(imports, Sequence) or not all(isinstance(it, str) for it in imports):
        problems.append(Problem("imports", "must be a list of modules"))
    if problems:
        raise InvalidRequest(problems)
    store, database = given.get("store"), given.get("database")
    if database is not None:
        check_database(database)
        store = url_of(database) if store is None else store
    settings = {name: value for name, value in given.items() if name in _SETTINGS}
    return Options(store, database, given.get("api_key"), tuple(imports), settings)


def check_database(alias: str) -> None:
    """Refuse a database whose transactions dibs cannot take part in."""
    try:
        vendor = connections[alias].vendor
    except ConnectionDoesNotExist:
        raise InvalidRequest([Problem("database", f"there is no {alias!r} in DATABASES")]) from None
    if vendor != "postgresql":
        told = f"{alias!r} is {vendor}, and only transactions of PostgreSQL can be shared; name a store instead"
        raise InvalidRequest([Problem("database", told)])
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if not is_psycopg3:
        raise InvalidRequest([Problem("database", "Django uses psycopg2 here; pip install 'psycopg[binary]'")])


def url_of(alias: str) -> str:
    """Make the URL of a database of ``DATABASES``, as it is named now: tests rename it."""
    said = connections[alias].settings_dict
    options = said.get("OPTIONS") or {}
    if lost := sorted(_NOT_PASSED_ON & set(options)):
        told = f"{alias!r} has the option {lost[0]!r}, which cannot be passed on; name the same database as store too"
        raise InvalidRequest([Problem("database", told)])
    query = {name: str(value) for name, value in options.items() if name in _PASSED_ON}
    host, port = str(said.get("HOST") or ""), str(said.get("PORT") or "")
    if host.startswith("/"):
        query["host"], host = host, ""
        if port:
            query["port"], port = port, ""
    user, password = quote(str(said.get("USER") or ""), ""), quote(str(said.get("PASSWORD") or ""), "")
    who = user + (f":{password}" if password else "")
    where = f"[{host}]" if ":" in host else host
    place = (f"{who}@" if who else "") + where + (f":{port}" if port else "")
    return f"postgresql://{place}/{quote(str(said['NAME']), '')}" + (f"?{urlencode(query)}" if query else "")


def shared_file(store: str | None) -> str | None:
    """Name the database of Django's that is the very SQLite file of the jobs; none if there is none.

    Django opens it with another SQLite library, and two of them on one file in one process break each other's locks.
    """
    if store is None or not store.startswith("sqlite:///"):
        return None
    path = Path(unquote(store.removeprefix("sqlite:///").partition("?")[0])).resolve()
    for alias in connections:
        said = connections[alias].settings_dict
        name = str(said["NAME"])
        if connections[alias].vendor == "sqlite" and ":memory:" not in name and Path(name).resolve() == path:
            return str(alias)
    return None
