"""Published schemas: what the params of a task must look like, as the workers that handle it say. Pure.

While two versions of a worker are at work, both are kept, and params that fit either are good. A version is good for
an hour after a worker that has it last said so; workers say so each half hour, but only while there are two.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.domain.checks import check_name
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import DAY, time_of
from dibs.domain.retry import SECOND, micros
from dibs.domain.validate import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SCHEMA = 64 * 1024
"""Bytes of JSON: all schemas are read together."""
MOST_OFFERS = 100
"""How many are published in one call."""
MOST_VERSIONS = 2
KEPT = micros(30 * DAY)
"""How long a schema is remembered that no worker says anything of."""
RENEWED = KEPT // 2
"""How old the word of the only version may be before a worker renews it."""
HELD = 3600 * SECOND
"""How long a version is good, after a worker that has it last said so, where there is another."""
SAID = 1200 * SECOND
"""How old the word of one of two versions may be before a worker renews it. A worker looks each half hour at the most,
so that it is never older than fifty minutes while there is one."""

ANYTHING = b"{}"


class Offer(msgspec.Struct, frozen=True):
    """A task's schema, as a worker's code says it is: canonical JSON."""

    task: str
    schema_json: bytes

    @property
    def digest(self) -> str:
        """What it is told from others by."""
        return sha256(self.schema_json).hexdigest()


class Version(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the schemas of a task, as the store keeps it."""

    digest: str
    schema: msgspec.Raw
    published_us: int
    said_us: int  # when a worker that has it last said so
    by: str | None = None  # who published it first


class Record(msgspec.Struct, frozen=True):
    """The schemas of a task: the one that was published last comes first."""

    versions: list[Version]


class SchemaInfo(msgspec.Struct, frozen=True):
    """A schema that the params of a task may fit; where there are two of a task, fitting one is enough."""

    task: str
    digest: str
    schema_json: bytes
    published_us: int
    by: str | None = None

    @property
    def schema(self) -> Any:
        """The JSON Schema."""
        return msgspec.json.decode(self.schema_json)

    @property
    def published_at(self) -> datetime | None:
        """When it was first published."""
        return time_of(self.published_us)


def offer_of(task: str, schema: Mapping[str, Any]) -> Offer:
    """Make an offer of a schema; ``TooLarge`` if it is more than is kept of one."""
    return Offer(task, encode("schema", schema, MAX_SCHEMA, InvalidRequest))


def check_offers(offers: Sequence[Offer]) -> None:
    """Check what is to be published, all at once, but for the schemas: those were encoded by ``offer_of``."""
    problems: list[Problem] = []
    if len(offers) > MOST_OFFERS:
        problems.append(Problem("schemas", f"must be {MOST_OFFERS} at most"))
    for place, offer in enumerate(offers):
        problems += [Problem(f"schemas[{place}].task", each.message) for each in check_name("task", offer.task)]
    if problems:
        raise InvalidRequest(problems)


def published(known: Record | None, offer: Offer, now: int, by: str | None) -> Record | None:
    """Say what is to be kept after a worker has said what it takes; none if that is kept already."""
    versions = [] if known is None else known.versions
    mine = next((version for version in versions if version.digest == offer.digest), None)
    others = [version for version in versions if version is not mine and now - version.said_us < HELD]
    if mine is None:
        mine = Version(offer.digest, msgspec.Raw(offer.schema_json), now, now, by)
        if len(versions) == 1:  # of the only one no one had to say anything: its hour begins now
            others = [msgspec.structs.replace(versions[0], said_us=now)]
        # The third goes, whose word is the oldest.
        kept = sorted(others, key=lambda version: -version.said_us)[: MOST_VERSIONS - 1]
    elif now - mine.said_us >= (SAID if len(versions) > 1 else RENEWED):
        mine, kept = msgspec.structs.replace(mine, said_us=now), others
    elif len(others) + 1 < len(versions):
        kept = others
    else:
        return None
    return Record(sorted([mine, *kept], key=lambda version: -version.published_us))


def good(record: Record, now: int) -> list[Version]:
    """List the versions that params may fit: those that a worker said it has within the hour, or else the last one."""
    last = max((version.said_us for version in record.versions), default=0)
    return [version for version in record.versions if now - version.said_us < HELD or version.said_us == last]


def infos_of(task: str, record: Record, now: int) -> list[SchemaInfo]:
    """Show the versions that params may fit, newest first."""
    return [
        SchemaInfo(task, version.digest, bytes(version.schema), version.published_us, version.by)
        for version in good(record, now)
    ]
