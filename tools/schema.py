"""Write schema.sql, what the migrations add up to; with --check, only say whether it is as it should be."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

import apsw

from dibs.stores.sqlite import migrate

SCHEMA = Path(migrate.__file__).with_name("schema.sql")
HEAD = "-- What the migrations add up to. Made by tools/schema.py, for reading and for diffs; nothing runs it.\n"


def sqlite_schema() -> str:
    connection = apsw.Connection(":memory:")
    migrate.migrate(connection, ":memory:", 0)
    found = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name LIKE 'dibs%' "
        "ORDER BY tbl_name, CASE type WHEN 'table' THEN 0 ELSE 1 END, name"
    )
    return HEAD + "".join(f"\n{sql};\n" for (sql,) in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it would have")
    check = parser.parse_args().check
    wanted = sqlite_schema()
    found = SCHEMA.read_text("utf-8") if SCHEMA.exists() else ""
    if found == wanted:
        return 0
    if not check:
        SCHEMA.write_text(wanted, "utf-8")
        print(f"wrote {SCHEMA}")
        return 0
    diff = difflib.unified_diff(
        found.splitlines(keepends=True), wanted.splitlines(keepends=True), "schema.sql", "what the migrations give"
    )
    sys.stdout.writelines(diff)
    print("run tools/schema.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
