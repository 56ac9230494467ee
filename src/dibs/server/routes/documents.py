"""The registry, for brokers over HTTP: ``app.once`` keeps its results there. Keys and secrets are not shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.broker.intake import check_document
from dibs.domain.checks import check_duration
from dibs.domain.errors import Forbidden, InvalidRequest, Problem
from dibs.domain.retry import micros
from dibs.once import PREFIX as ONCE
from dibs.server import cursors, keys
from dibs.server.route import Call, Reply, Route
from dibs.wire.answered import Documents, Put
from dibs.wire.asked import DocumentQuery, Putting
from dibs.wire.show import found_of

if TYPE_CHECKING:
    from dibs.domain.job import Document

_HIDDEN = (keys.KEYS, cursors.SECRETS)


async def read(call: Call) -> Reply:
    """Read one document by its name, or all whose name begins so."""
    asked: DocumentQuery = call.query
    if (asked.name is None) == (asked.prefix is None):
        raise InvalidRequest([Problem("name", "give either a name or a prefix, not both and not neither")])
    if asked.name is not None:
        _admit(call, asked.name)
        found = await call.broker.read(asked.name)
        return _shown([] if found is None else [found])
    prefix = asked.prefix or ""
    _admit(call, prefix)
    return _shown([one for one in await call.broker.documents(prefix) if not one.name.startswith(_HIDDEN)])


async def put(call: Call) -> Reply:
    """Write a document, or remove it."""
    asked: Putting = call.body
    _admit(call, asked.name)
    check_document(asked.name, asked.value)
    keep = asked.keep_seconds
    if keep is not None and (problems := check_duration("keep_seconds", keep, least=0)):
        raise InvalidRequest(problems)
    written = await call.broker.put(
        asked.name, asked.value, expect=asked.expect, keep_us=None if keep is None else micros(keep)
    )
    return Reply(Put(document=None if written is None else found_of(written)))


def _admit(call: Call, name: str) -> None:
    """Refuse a caller what is not its business: a worker needs the results of ``once``, an admin most of the rest."""
    if name.startswith(_HIDDEN):
        raise Forbidden("keys and secrets are not shown", hint="Use `dibs keys` where the store is.")
    if not name.startswith(ONCE):
        call.caller.need("admin")
        call.caller.need_all_queues()


def _shown(documents: list[Document]) -> Reply:
    return Reply(Documents(documents=[found_of(document) for document in documents]))


ROUTES = (
    Route(
        "GET",
        "/api/documents",
        read,
        "Read documents of the registry.",
        scope="work",
        query=DocumentQuery,
        answers={200: Documents},
    ),
    Route(
        "POST",
        "/api/documents",
        put,
        "Write a document of the registry.",
        scope="work",
        bodies=(Putting,),
        answers={200: Put},
        refuses=(413,),
    ),
)
