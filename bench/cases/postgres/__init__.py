"""The cases on PostgreSQL: each starts a private server of its own, as production would set it."""
