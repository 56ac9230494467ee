"""A connection: what it costs the server to take one more."""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from dibs.stores.postgres import address
from dibs.stores.postgres.link import ARRAYS, Link, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAMES = {"bytea": "bytea", "integer": "int4", "int": "int4", "bigint": "int8", "double precision": "float8"}


@pytest.fixture
async def link(url: str) -> AsyncIterator[Link]:
    link = await connect(address.read(url))
    yield link
    await link.close()


def test_every_array_of_a_statement_is_known() -> None:
    """Or asyncpg asks for it on each connection, at more than all the rest of connecting costs."""
    folder = files("dibs.stores.postgres").joinpath("sql")
    texts = [file.read_text("utf-8") for file in folder.iterdir()]
    used = {name for text in texts for name in re.findall(r"::([a-z ]+)\[\]", text)} - {"text"}
    assert {NAMES[name] for name in used} == {name for name, _ in ARRAYS.values()}


async def test_the_numbers_are_the_server_s(link: Link) -> None:
    rows = await link.fetch("SELECT oid::bigint, typname, typelem::bigint FROM pg_type WHERE oid = ANY ($1)", [*ARRAYS])
    assert {row[0]: (row[1].removeprefix("_"), row[2]) for row in rows} == ARRAYS


async def test_arrays_cost_no_question(link: Link) -> None:
    asked: list[str] = []

    async def note(record: object) -> None:
        asked.append(str(getattr(record, "query", record)))

    link.add_query_logger(note)
    statement = "SELECT $1::bytea[], $2::integer[], $3::bigint[], $4::double precision[]"
    given = [[b"\0", None], [-1, None], [2**60, None], [0.5, None]]
    assert [*await link.fetchrow(statement, *given)] == given
    while not asked:  # noqa: ASYNC110 - it is told by and by
        await asyncio.sleep(0.01)
    assert asked == [statement]
