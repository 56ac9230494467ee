"""Schemas of tasks on the wire: what is asked, what is answered, and both to and from the domain."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from dibs.domain.errors import InvalidRequest, Problem, TooLarge
from dibs.domain.job import time_of
from dibs.domain.schema import MOST_OFFERS, Offer, SchemaInfo, offer_of
from dibs.wire.answered import Answer
from dibs.wire.asked import Actor, Asked, Name
from dibs.wire.read import us_of


class NewSchema(Asked, frozen=True, kw_only=True):
    """What the params of a task must look like: JSON Schema 2020-12, 64 KiB at most."""

    task_type: Name
    schema: dict[str, Any]


class Offering(Asked, frozen=True, kw_only=True):
    """Schemas to be made known, as the code of a worker says they are; ``by``: which worker."""

    schemas: Annotated[list[NewSchema], Meta(max_length=MOST_OFFERS)]
    by: Actor | None = None


class Offered(Answer, frozen=True, kw_only=True):
    """How many schemas had to be written: the rest were known."""

    written: int


class Schema(Struct, frozen=True, kw_only=True):
    """A schema that the params of a task may fit; where there are two of a task, fitting one is enough."""

    task_type: str
    digest: str
    schema: Raw
    published_at: datetime
    by: str | None


class Schemas(Answer, frozen=True, kw_only=True):
    """The schemas that were published, by task; of one task the newest first."""

    schemas: list[Schema]


def offers_of(asked: Offering) -> list[Offer]:
    """Take schemas that are to be published."""
    offers: list[Offer] = []
    problems: list[Problem] = []
    for place, each in enumerate(asked.schemas):
        try:
            offers.append(offer_of(each.task_type, each.schema))
        except InvalidRequest as error:
            problems += [Problem(f"schemas[{place}].{fault.field}", fault.message) for fault in error.problems]
        except TooLarge as error:
            raise TooLarge(f"schemas[{place}].schema", error.size, error.limit) from None
    if problems:
        raise InvalidRequest(problems)
    return offers


def shown(info: SchemaInfo) -> Schema:
    """Show a schema."""
    time = time_of(info.published_us)
    assert time is not None  # noqa: S101  # for the type checker
    return Schema(task_type=info.task, digest=info.digest, schema=Raw(info.schema_json), published_at=time, by=info.by)


def schema_info(schema: Schema) -> SchemaInfo:
    """Read a schema."""
    return SchemaInfo(schema.task_type, schema.digest, bytes(schema.schema), us_of(schema.published_at), schema.by)
