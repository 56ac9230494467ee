"""Nothing: the tables are dibs's own. Django tells only apps that have this module of a migration."""
