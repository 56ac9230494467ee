"""The Redis store: a server's own scripts do each step whole, at the speed of memory."""

from dibs.stores.redis.store import RedisStore, from_url

__all__ = ["RedisStore", "from_url"]
