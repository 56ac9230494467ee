"""The SQLite store: one file, shared safely by any number of threads and processes of one machine."""

from dibs.stores.sqlite.store import SqliteStore, from_url

__all__ = ["SqliteStore", "from_url"]
