"""The cases: each takes the run and leaves figures and bars with it. Peers are figures beside ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bench.cases import herd
from bench.cases.batch import batch
from bench.cases.claimers import claimers
from bench.cases.costs import costs
from bench.cases.end_to_end import end_to_end
from bench.cases.enqueue import enqueue
from bench.cases.flat import flat
from bench.cases.http import http, http_postgres, http_redis
from bench.cases.mariadb import mariadb
from bench.cases.pickup import pickup
from bench.cases.polls import polls
from bench.cases.postgres import batch as postgres_batch
from bench.cases.postgres import flat as postgres_flat
from bench.cases.postgres import idle as postgres_idle
from bench.cases.postgres import pickup as postgres_pickup
from bench.cases.postgres import snapshot as postgres_snapshot
from bench.cases.postgres.end_to_end import postgres
from bench.cases.redis import batch as redis_batch
from bench.cases.redis import cluster as redis_cluster
from bench.cases.redis import enqueue as redis_enqueue
from bench.cases.redis import flat as redis_flat
from bench.cases.redis import pickup as redis_pickup
from bench.cases.redis import scripts as redis_scripts
from bench.cases.redis.end_to_end import redis
from bench.cases.start import start
from bench.cases.worker import worker
from bench.run import Run


class Case(NamedTuple):
    name: str
    about: str
    measure: Callable[[Run], Awaitable[None]]


CASES = (
    Case("end-to-end", "one worker process until nothing is left, beside the peers", end_to_end),
    Case("ten-claimers", "ten concurrent claimers in one process, one job at a time", claimers),
    Case("batch", "claim and settle in batches, beside the bare engine", batch),
    Case("worker", "what a worker costs beside a bare loop, while handlers sleep, and in memory", worker),
    Case("mariadb", "claim and settle in batches of 100 on MariaDB, beside the bare engine", mariadb),
    Case("enqueue", "enqueue, one at a time, ten at once and in batches, beside the peers", enqueue),
    Case("pickup", "from another process: how soon a job is claimed, and what waiting costs", pickup),
    Case("http", "claims over HTTP: 10 and 64 connections to a server process, beside its empty endpoint", http),
    Case("http-postgres", "the same on PostgreSQL", http_postgres),
    Case("http-redis", "the same on Redis", http_redis),
    Case("http-polls", "a thousand long polls on one server process: memory, processor, claims for each job", polls),
    Case("start", "how soon the command line answers, beside bare Python", start),
    Case("flat", "what a claim costs with a long backlog or history", flat),
    Case("postgres", "end to end on PostgreSQL, beside the peers there", postgres),
    Case("postgres-batch", "claim and settle on PostgreSQL, beside the bare driver", postgres_batch.batch),
    Case("postgres-pickup", "from another process through PostgreSQL, beside the peers", postgres_pickup.pickup),
    Case("postgres-idle", "what fifty idle workers ask of PostgreSQL", postgres_idle.idle),
    Case("postgres-flat", "what a claim costs on PostgreSQL with a long backlog or history", postgres_flat.flat),
    Case("postgres-snapshot", "what it costs there while a snapshot is held open", postgres_snapshot.snapshot),
    Case("redis", "end to end on Redis, beside the peers there", redis),
    Case("redis-batch", "claim and settle on Redis, beside bare scripts", redis_batch.batch),
    Case("redis-enqueue", "enqueue on Redis, one at a time and in batches, beside the peers", redis_enqueue.enqueue),
    Case("redis-pickup", "from another process through Redis, beside the peers", redis_pickup.pickup),
    Case("redis-flat", "what a claim costs on Redis with a long backlog, and a job's memory", redis_flat.flat),
    Case("redis-scripts", "how long a script holds Redis up", redis_scripts.scripts),
    *(Case(name, about, herd.case(name)) for name, about in herd.ABOUT.items()),
    Case("redis-cluster", "a queue on three masters, in one part and in several", redis_cluster.clustered),
    Case("costs", "what an operation costs a server, in its processor's time: the figures of scaling", costs),
)
