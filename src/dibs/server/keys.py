"""API keys: ``dibs_<id>_<secret>``, kept as a document each, with a hash of the secret and never the secret itself."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dibs.domain.checks import check_name, check_text
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.retry import SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.broker.protocol import Broker
    from dibs.clock import Clock
    from dibs.domain.job import Document

KEYS = "key/"
"""Documents of this prefix are keys: ``key/3f9a…`` is that of ``dibs_3f9a…_…``."""
SCOPES = ("produce", "work", "read", "admin")
DEFAULT_RATE = 100
"""Requests a minute."""
MAX_RATE = 10_000_000
FIRST = "admin"
"""The id of the key that the first start makes."""

_MAX_NAME = 100
_SECRET_BYTES = 32
_KEY = re.compile(r"dibs_([a-z0-9]{1,32})_([A-Za-z0-9_-]{20,100})\Z")


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a key. The secret is 256 random bits, so a plain hash of it cannot be searched."""

    name: str
    hash: str
    scopes: tuple[str, ...]
    rate: int | None = None  # requests a minute; none: without limit
    queues: tuple[str, ...] | None = None  # none: all


class Found(NamedTuple):
    """A key and the document that it is kept in."""

    id: str
    key: Key
    created_us: int
    expires_us: int | None


class Made(NamedTuple):
    """A key that was just made, and its text, which is shown this once."""

    id: str
    text: str
    key: Key
    expires_us: int | None


_decoder = msgspec.json.Decoder(Key)


def make(clock: Clock, id: str, key: Key) -> tuple[str, Key]:
    """Draw a secret; return the text of the key, and what is to be kept of it."""
    secret = urlsafe_b64encode(clock.random_bytes(_SECRET_BYTES)).decode().rstrip("=")
    return f"dibs_{id}_{secret}", msgspec.structs.replace(key, hash=_hash(secret))


async def create(
    broker: Broker,
    clock: Clock,
    *,
    name: str,
    scopes: Sequence[str],
    rate: int | None = DEFAULT_RATE,
    queues: Sequence[str] | None = None,
    expires: float | None = None,
) -> Made:
    """Make a key. ``expires`` is in how many seconds, by the store's clock."""
    wish = Key(name, "", tuple(dict.fromkeys(scopes)), rate, None if queues is None else tuple(dict.fromkeys(queues)))
    check(wish, expires)
    keep_us = None if expires is None else round(expires * SECOND)
    while True:
        id = clock.random_bytes(6).hex()
        text, key = make(clock, id, wish)
        if document := await broker.put(KEYS + id, msgspec.json.encode(key), expect=0, keep_us=keep_us):
            return Made(id, text, key, document.expires_us)


async def put_first(broker: Broker, key: Key) -> bool:
    """Keep the first key, unless there is one by now. Race: two servers start at once; one of their keys is kept."""
    return await broker.put(KEYS + FIRST, msgspec.json.encode(key), expect=0) is not None


def first(clock: Clock) -> tuple[str, Key]:
    """Make the admin key of a first start, without limit."""
    return make(clock, FIRST, Key("admin", "", ("admin",)))


def check(key: Key, expires: float | None) -> None:
    """Check what a key is wished to be."""
    problems = check_text("name", key.name, most=_MAX_NAME)
    unknown = [scope for scope in key.scopes if scope not in SCOPES]
    if unknown or not key.scopes:
        problems.append(Problem("scope", f"must be one or more of {', '.join(SCOPES)}"))
    if key.rate is not None and not 1 <= key.rate <= MAX_RATE:
        problems.append(Problem("rate", f"must be 1/min to {MAX_RATE}/min, or unlimited"))
    for queue in key.queues or ():
        problems += check_name("queue", queue)
    if expires is not None and not 0 < expires <= 100 * 365 * 86_400:
        problems.append(Problem("expires", "must lie ahead, by less than a hundred years"))
    if problems:
        raise InvalidRequest(problems)


async def everything(broker: Broker) -> list[Found]:
    """List the keys."""
    return [_found(document) for document in await broker.documents(KEYS)]


async def revoke(broker: Broker, id: str) -> bool:
    """Remove a key; say whether there was one. Servers that know it forget it within seconds."""
    known = await broker.read(KEYS + id)
    return known is not None and await broker.put(KEYS + id, None, expect=known.version) is not None


async def look_up(broker: Broker, id: str) -> Found | None:
    """Read a key by its id."""
    document = await broker.read(KEYS + id)
    return None if document is None else _found(document)


def split(text: str) -> tuple[str, str] | None:
    """Take a key's text apart into id and secret; none if it is not one."""
    match = _KEY.match(text)
    return None if match is None else (match[1], match[2])


def proves(key: Key, secret: str) -> bool:
    """Say whether the secret is that key's; how long it takes tells nothing about it."""
    return compare_digest(key.hash, _hash(secret))


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _found(document: Document) -> Found:
    key = _decoder.decode(document.value)
    return Found(document.name.removeprefix(KEYS), key, document.updated_us, document.expires_us)
