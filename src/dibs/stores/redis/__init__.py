"""The Redis store: a server's own scripts do each step whole, at the speed of memory; on one server or on a cluster."""

from dibs.stores.redis.cluster.store import ClusterStore
from dibs.stores.redis.cluster.store import from_url as cluster_from_url
from dibs.stores.redis.store import RedisStore, from_url

__all__ = ["ClusterStore", "RedisStore", "cluster_from_url", "from_url"]
