"""Mistakes in the statements and scripts of the stores that are servers: each is all that keeps two clients apart."""

from __future__ import annotations

from tests.mistakes.planting import Edit, Mistake

_P = "dibs.stores.postgres"
_M = "dibs.stores.mysql"
_R = "dibs.stores.redis"

POSTGRES = [
    Mistake(
        "PostgreSQL: two claimers take one row",
        1,
        "double claim",
        "postgres",
        (
            Edit(f"{_P}.claiming:_CLAIM", "LIMIT lane.number FOR UPDATE SKIP LOCKED", "LIMIT lane.number"),
            Edit(
                f"{_P}.claiming:_CLAIM",
                "job.ctid = leased.ctid AND job.status || '' = 'pending'",
                "job.seq = leased.seq",
            ),
        ),
        "PostgreSQL's suite",
        "passes_by_what_another_holds",
    ),
    Mistake(
        "PostgreSQL: whoever knows the fence may complete",
        3,
        "zombie finishes over its successor",
        "postgres",
        (Edit(f"{_P}.completing:_COMPLETE", " AND job.token = asked.token", ""),),
        "PostgreSQL's suite",
        "settle_compares_the_token",
    ),
    Mistake(
        "PostgreSQL: a paused queue hands out",
        "§4",
        "paused queues that run",
        "postgres",
        (Edit(f"{_P}.claiming:_CLAIM", "pause.name = 'paused/' || lane.queue", "pause.name = 'paused' || lane.queue"),),
        "PostgreSQL's suite",
        "claim_of_a_paused_queue_gives_nothing",
    ),
    Mistake(
        "PostgreSQL: an extension shortens",
        11,
        "heartbeat starved",
        "postgres",
        (
            Edit(
                f"{_P}.writing:_EXTEND",
                "greatest(job.lease_expires, greatest(moment.now, job.updated) + job.claim_lease)",
                "coalesce($1::bigint, moment.now) + job.claim_lease",
            ),
        ),
        "PostgreSQL's suite",
        "extend_only_moves",
    ),
    Mistake(
        "PostgreSQL: a finished job keeps its unique key",
        9,
        "uniqueness",
        "postgres",
        (Edit(f"{_P}.inserting:_NAMED", "whole.expires IS NULL AND whole.unique_key", "whole.unique_key"),),
        "PostgreSQL's suite",
        "key_of_a_job_that_ended",
    ),
    Mistake(
        "PostgreSQL: the end of a job is not in its log",
        12,
        "audit",
        "postgres",
        (Edit(f"{_P}.completing:_COMPLETE", "untold = 2", "untold = 1"),),
        "PostgreSQL's suite",
        "log_keeps_its_order",
    ),
]

MYSQL = [
    Mistake(
        "MySQL: two claimers take one row",
        1,
        "double claim",
        "mysql",
        (Edit(f"{_M}.claiming:_LOCK", " FOR UPDATE SKIP LOCKED", ""),),
        "MySQL's suite",
        "passes_by_what_another_holds",
    ),
    Mistake(
        "MySQL: whoever knows the fence may complete",
        3,
        "zombie finishes over its successor",
        "mysql",
        (Edit(f"{_M}.completing:_LOCK", " AND job.token = given.token", ""),),
        "MySQL's suite",
        "settle_compares_the_token",
    ),
    Mistake(
        "MySQL: a paused queue hands out",
        "§4",
        "paused queues that run",
        "mysql",
        (Edit(f"{_M}.looking:_LANES", "concat(_binary'paused/', lane.queue)", "concat(_binary'paused', lane.queue)"),),
        "MySQL's suite",
        "claim_of_a_paused_queue_gives_nothing",
    ),
    Mistake(
        "MySQL: an extension is as long as the job's lease",
        11,
        "heartbeat starved",
        "mysql",
        (
            Edit(
                f"{_M}.writing:_EXTEND",
                "greatest(lease_expires, greatest(%s, updated) + claim_lease)",
                "greatest(%s, updated) + lease",
            ),
        ),
        "MySQL's suite",
        "extend_moves_the_lease_end",
    ),
    Mistake(
        "MySQL: the fence stays as it was",
        2,
        "zombie finishes over its successor",
        "mysql",
        (Edit(f"{_M}.claiming:_TAKE", "fence = fence + 1", "fence = greatest(fence, 1)"),),
        "MySQL's suite",
        "reap_checks_the_fence_again",
    ),
    Mistake(
        "MySQL: the end of a job is logged as its claim",
        12,
        "audit",
        "mysql",
        (Edit(f"{_M}.completing:_LOG", "'completed', 'claimed', 'completed'", "'claimed', 'pending', 'claimed'"),),
        "MySQL's suite",
        "log_keeps_its_order",
    ),
]

REDIS = [
    Mistake(
        "Redis: what is claimed still waits",
        1,
        "double claim",
        "redis",
        (Edit(f"{_R}.claiming:_CLAIM", "redis.call('ZREM', PENDING, unpack(removed))", ""),),
        "Redis's tests",
        "by_ten_workers",
    ),
    Mistake(
        "Redis: whoever knows the fence may complete",
        3,
        "zombie finishes over its successor",
        "redis",
        (
            Edit(
                f"{_R}.writing:_COMPLETE",
                "string.sub(state, from + nworker, rest - 1) == ARGV[arg + 2] and keep",
                "keep",
            ),
        ),
        "Redis's tests",
        "settle_compares_the_token",
    ),
    Mistake(
        "Redis: an extension shortens",
        11,
        "heartbeat starved",
        "redis",
        (Edit(f"{_R}.writing:_EXTEND", "math.max(ends, now + length)", "(tonumber(ARGV[1]) or now) + length"),),
        "Redis's tests",
        "extend_only_moves",
    ),
    Mistake(
        "Redis: names are not looked up before they are taken",
        9,
        "uniqueness",
        "redis",
        (Edit(f"{_R}.inserting:_INSERT", "or is_taken(UNIQUE, uniques, is_hidden)", ""),),
        "Redis's tests",
        "one_key_makes_one_job",
    ),
    Mistake(
        "Redis: a write does not look whether the job has changed",
        3,
        "lost when a worker dies",
        "redis",
        (Edit(f"{_R}.writing:_WRITE", "or (states[n] or '') ~= ARGV[at + 1] ", ""),),
        "Redis's tests",
        "overtook_is_judged_again",
    ),
    Mistake(
        "Redis: jobs are claimed before they are due",
        8,
        "clocks",
        "redis",
        (
            Edit(f"{_R}.claiming:_CLAIM", "if due <= now then", "if due <= now + 60000000 then"),
            Edit(f"{_R}.claiming:_CLAIM", "struct.pack('>I8', now + 1)", "struct.pack('>I8', now + 60000001)"),
        ),
        "Redis's tests",
        "falls_due",
    ),
    Mistake(
        "Redis: no one is told that a full server throws jobs away",
        4,
        "Redis loss and Cluster",
        "redis",
        (Edit(f"{_R}.examining:_Examination._eviction", 'if policy != "noeviction":', "if not policy:"),),
        "Redis's tests",
        "throws_jobs_away",
    ),
]

CLUSTER = [
    Mistake(
        "Cluster: a name that someone has is reserved again",
        9,
        "uniqueness",
        "cluster",
        (Edit(f"{_R}.cluster.owners:_RESERVE", "if not owner then", "if true then"),),
        "the cluster's tests",
        "one_key_makes_one_job",
    ),
    Mistake(
        "Cluster: a name is taken over from whoever has it by now",
        9,
        "uniqueness",
        "cluster",
        (
            Edit(f"{_R}.cluster.owners:_SWAP", "owner == seen and 1 or 0", "1"),
            Edit(f"{_R}.cluster.owners:_SWAP", "if owner == seen then", "if true then"),
        ),
        "the cluster's tests",
        "who_take_over_a_name",
    ),
    Mistake(
        "Cluster: who was overtaken makes its job all the same",
        9,
        "uniqueness",
        "cluster",
        (Edit(f"{_R}.inserting:_INSERT", "if not is_valid(ARGV[3], ARGV[4]) then return -1 end", ""),),
        "the cluster's tests",
        "makes_nothing_once",
    ),
    Mistake(
        "Cluster: a name is taken over though its job is there",
        9,
        "uniqueness",
        "cluster",
        (Edit(f"{_R}.cluster.owners:_VOID", "holds and 0 or 1", "1"),),
        "the cluster's tests",
        "has_come_meanwhile",
    ),
    Mistake(
        "Cluster: an older word of what is paused is believed",
        "§4",
        "paused queues that run",
        "cluster",
        (
            Edit(
                f"{_R}.cluster.pauses:_COPY",
                "if tonumber(ARGV[1]) <= tonumber(redis.call('HGET', META, 'pauses') or 0) then return 0 end",
                "",
            ),
        ),
        "the cluster's tests",
        "older_one_does_not",
    ),
    Mistake(
        "Cluster: a queue is spread so that jobs are left where no one looks",
        5,
        "stuck for ever",
        "cluster",
        (Edit(f"{_R}.cluster.store:_SPREAD", " and tonumber(ARGV[at + 1]) % found == 0", ""),),
        "the cluster's tests",
        "only_become_a_multiple",
    ),
    Mistake(
        "Cluster: the keys of a shard lie on several masters",
        5,
        "Redis loss and Cluster",
        "cluster",
        (Edit(f"{_R}.keys:Shard.key", ":{{{self.tag}}}:", ":{self.tag}:"),),
        "the cluster's tests",
        "claim_is_atomic",
    ),
]

SERVERS = [*POSTGRES, *MYSQL, *REDIS, *CLUSTER]
