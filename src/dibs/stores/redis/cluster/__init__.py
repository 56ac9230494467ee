"""The Redis store on a cluster: the shards and scripts of one server, and what it takes that there are several."""
