"""The store on MySQL 8 and MariaDB 10.6 or newer."""

from dibs.stores.mysql.store import MysqlStore, from_url

__all__ = ["MysqlStore", "from_url"]
