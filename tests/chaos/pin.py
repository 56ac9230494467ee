"""A foreign program on the same file: it holds a read transaction, or the write lock, until its stdin ends.

python -m tests.chaos.pin PATH read|write
"""

from __future__ import annotations

import sys

import apsw

if __name__ == "__main__":
    connection = apsw.Connection(sys.argv[1])
    connection.set_busy_timeout(30_000)
    if sys.argv[2] == "write":
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema")
    print('{"answer": "holding"}', flush=True)
    sys.stdin.read()
    connection.execute("COMMIT")
    connection.close()
