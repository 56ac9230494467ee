"""The PostgreSQL store, for those who outgrow one machine."""

from dibs.stores.postgres.store import PostgresStore, from_url

__all__ = ["PostgresStore", "from_url"]
