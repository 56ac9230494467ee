"""Write each schema.sql, what its migrations add up to; with --check, only say whether they are as they should be."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import sys
from pathlib import Path

import apsw
import asyncpg

from dibs.clock import Clock
from dibs.stores.mysql import MysqlStore
from dibs.stores.mysql import migrate as mysql
from dibs.stores.postgres import PostgresStore
from dibs.stores.postgres import migrate as postgres
from dibs.stores.sqlite import migrate as sqlite

ROOT = Path(__file__).parent.parent
HEAD = "-- What the migrations add up to. Made by tools/schema.py, for reading and for diffs; nothing runs it.\n"

COLUMNS = """
  SELECT attname, format_type(atttypid, atttypmod), CASE WHEN attcollation = 950 THEN ' COLLATE "C"' ELSE '' END,
    CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END, coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), ''),
    CASE attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY' ELSE '' END
  FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
RELATIONS = """
  SELECT oid, relname, relkind::text, coalesce(' WITH (' || array_to_string(reloptions, ', ') || ')', '')
  FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname LIKE 'dibs%'
    AND (relkind IN ('r', 'v') OR relname = 'dibs_clock') ORDER BY relname"""
INDEXES = "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = $1 ORDER BY indexrelid::regclass::text"
MYSQL_TABLES = """
  SELECT table_name, table_type FROM information_schema.tables
  WHERE table_schema = database() AND table_name LIKE 'dibs%' ORDER BY table_name"""
MYSQL_COLUMNS = """
  SELECT column_name, ' ', column_type, if(is_nullable = 'NO', ' NOT NULL', ''),
    coalesce(concat(' DEFAULT ', nullif(column_default, 'NULL')), ''), if(extra = '', '', concat(' ', extra)),
    if(coalesce(generation_expression, '') = '', '', concat(' AS (', generation_expression, ')'))
  FROM information_schema.columns WHERE table_schema = database() AND table_name = %s ORDER BY ordinal_position"""
MYSQL_INDEXES = """
  SELECT if(min(non_unique) = 0, 'UNIQUE KEY', 'KEY'), index_name, group_concat(column_name ORDER BY seq_in_index)
  FROM information_schema.statistics WHERE table_schema = database() AND table_name = %s
  GROUP BY index_name ORDER BY index_name"""
KINDS = {"r": "TABLE", "v": "VIEW", "S": "SEQUENCE"}


def sqlite_schema() -> str:
    connection = apsw.Connection(":memory:")
    sqlite.migrate(connection, ":memory:", 0)
    found = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name LIKE 'dibs%' "
        "ORDER BY tbl_name, CASE type WHEN 'table' THEN 0 ELSE 1 END, name"
    )
    return HEAD + "".join(f"\n{sql};\n" for (sql,) in found)


def postgres_schema() -> str:
    sys.path.insert(0, str(ROOT))
    from tests.servers.databases import bare_postgres

    return HEAD + asyncio.run(_describe(bare_postgres("schema")))


async def _describe(url: str) -> str:
    """Tell what the catalogue says, in words that do not depend on the server's version."""
    await PostgresStore(url, Clock()).migrate()
    connection = await asyncpg.connect(url)
    text = ""
    for oid, name, kind, options in await connection.fetch(RELATIONS):
        columns = ["".join((f"  {row[0]} ", *row[1:])) for row in await connection.fetch(COLUMNS, oid)]
        listed = "" if kind == "S" else " (\n" + ",\n".join(columns) + "\n)"
        text += f"\nCREATE {KINDS[kind]} {name}{listed}{options};\n"
        for (index,) in await connection.fetch(INDEXES, oid):
            text += index.replace("public.", "") + ";\n"
    await connection.close()
    return text


def mysql_schema() -> str:
    """Tell what the catalogue says; how the server shows a table is left out, as it depends on its make."""
    sys.path.insert(0, str(ROOT))
    from tests.servers.databases import bare_mysql, connect_mysql

    url = bare_mysql("schema")
    asyncio.run(MysqlStore(url, Clock()).migrate())
    text = HEAD
    with connect_mysql(url) as connection, connection.cursor() as cursor:
        cursor.execute(MYSQL_TABLES)
        for table, kind in cursor.fetchall():
            cursor.execute(MYSQL_COLUMNS, (table,))
            columns = ["  " + "".join(row) for row in cursor.fetchall()]
            cursor.execute(MYSQL_INDEXES, (table,))
            indexes = [f"  {unique} {name} ({listed})" for unique, name, listed in cursor.fetchall()]
            listed = ",\n".join(columns + indexes)
            text += f"\nCREATE {'VIEW' if kind == 'VIEW' else 'TABLE'} {table} (\n{listed}\n);\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it would have")
    check = parser.parse_args().check
    wanted = {
        sqlite.__file__: sqlite_schema(),
        postgres.__file__: postgres_schema(),
        mysql.__file__: mysql_schema(),
    }
    return max(_settle(Path(module).with_name("schema.sql"), text, check=check) for module, text in wanted.items())


def _settle(path: Path, wanted: str, *, check: bool) -> int:
    found = path.read_text("utf-8") if path.exists() else ""
    if found == wanted:
        return 0
    if not check:
        path.write_text(wanted, "utf-8")
        print(f"wrote {path}")
        return 0
    name = str(path.relative_to(ROOT))
    diff = difflib.unified_diff(
        found.splitlines(keepends=True), wanted.splitlines(keepends=True), name, "what the migrations give"
    )
    sys.stdout.writelines(diff)
    print("run tools/schema.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
