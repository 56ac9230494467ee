"""The statements of each shape, as plain as they can be: one that claims, one that settles, each with its events."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    name: str
    schema: str
    fill: str  # $1: how many
    claim: str  # $1, $2: the due time and number to begin at; $3: how many
    settle: str  # $1: the ids


EVENT = """
CREATE TABLE event (job bigint, n integer, at bigint, event text, worker text, PRIMARY KEY (job, n))
  WITH (autovacuum_enabled = off);
"""

IN_PLACE = Shape(
    "update in place",
    """
    CREATE TABLE job (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, lane bigint NOT NULL,
      due bigint NOT NULL, status text NOT NULL, fence bigint NOT NULL DEFAULT 0, token text, worker text,
      lease_expires bigint, expires bigint, params bytea NOT NULL, terms bytea NOT NULL, result bytea
    ) WITH (autovacuum_enabled = off);
    CREATE INDEX job_pending ON job (lane, due, seq) WHERE status = 'pending';
    CREATE INDEX job_leases ON job (lease_expires) WHERE status = 'claimed';
    CREATE INDEX job_finished ON job (lane, status, expires) WHERE expires IS NOT NULL;
    """
    + EVENT,
    """
    INSERT INTO job (id, lane, due, status, params, terms)
    SELECT 'job-' || lpad(n::text, 32, '0'), 1, n, 'pending', decode(repeat('61', 70), 'hex'),
      decode(repeat('62', 90), 'hex')
    FROM generate_series(1, $1::integer) AS n
    """,
    """
    WITH picked AS MATERIALIZED (
      SELECT seq FROM job WHERE lane = 1 AND status = 'pending' AND (due, seq) >= ($1::bigint, $2::bigint)
      ORDER BY due, seq LIMIT $3::integer FOR UPDATE SKIP LOCKED
    ), taken AS (
      UPDATE job SET status = 'claimed', fence = fence + 1, token = 'token', worker = 'worker', lease_expires = due + 30
      FROM picked WHERE job.seq = picked.seq RETURNING job.*
    ), logged AS (
      INSERT INTO event SELECT seq, 2, due, 'claimed', worker FROM taken
    )
    SELECT id, due, seq, fence, params, terms FROM taken
    """,
    """
    WITH ended AS (
      UPDATE job SET status = 'completed', expires = due + 86400
      FROM unnest($1::text[]) AS asked (id)
      WHERE job.id = asked.id AND job.status || '' = 'claimed' AND token = 'token' RETURNING seq, due, worker
    ), logged AS (
      INSERT INTO event SELECT seq, 3, due, 'completed', worker FROM ended
    )
    SELECT seq FROM ended
    """,
)

HISTORY = Shape(
    "hot table and history",
    """
    CREATE TABLE hot (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, lane bigint NOT NULL,
      due bigint NOT NULL, fence bigint NOT NULL DEFAULT 0, params bytea NOT NULL, terms bytea NOT NULL
    ) WITH (autovacuum_enabled = off);
    CREATE INDEX hot_lane ON hot (lane, due, seq);
    CREATE TABLE claim (
      seq bigint PRIMARY KEY, id text NOT NULL UNIQUE, lane bigint NOT NULL, due bigint NOT NULL, fence bigint NOT NULL,
      token text NOT NULL, worker text NOT NULL, lease_expires bigint NOT NULL, params bytea NOT NULL,
      terms bytea NOT NULL
    ) WITH (autovacuum_enabled = off);
    CREATE INDEX claim_leases ON claim (lease_expires);
    CREATE TABLE history (
      seq bigint PRIMARY KEY, id text NOT NULL UNIQUE, lane bigint NOT NULL, due bigint NOT NULL, status text NOT NULL,
      fence bigint NOT NULL, token text, worker text, expires bigint NOT NULL, params bytea NOT NULL,
      terms bytea NOT NULL, result bytea
    ) WITH (autovacuum_enabled = off);
    CREATE INDEX history_finished ON history (lane, status, expires);
    """
    + EVENT,
    """
    INSERT INTO hot (id, lane, due, params, terms)
    SELECT 'job-' || lpad(n::text, 32, '0'), 1, n, decode(repeat('61', 70), 'hex'), decode(repeat('62', 90), 'hex')
    FROM generate_series(1, $1::integer) AS n
    """,
    """
    WITH picked AS MATERIALIZED (
      SELECT seq FROM hot WHERE lane = 1 AND (due, seq) >= ($1::bigint, $2::bigint)
      ORDER BY due, seq LIMIT $3::integer FOR UPDATE SKIP LOCKED
    ), gone AS (
      DELETE FROM hot USING picked WHERE hot.seq = picked.seq RETURNING hot.*
    ), taken AS (
      INSERT INTO claim SELECT seq, id, lane, due, fence + 1, 'token', 'worker', due + 30, params, terms FROM gone
      RETURNING *
    ), logged AS (
      INSERT INTO event SELECT seq, 2, due, 'claimed', worker FROM taken
    )
    SELECT id, due, seq, fence, params, terms FROM taken
    """,
    """
    WITH gone AS (
      DELETE FROM claim USING unnest($1::text[]) AS asked (id)
      WHERE claim.id = asked.id AND token = 'token' RETURNING claim.*
    ), ended AS (
      INSERT INTO history (seq, id, lane, due, status, fence, token, worker, expires, params, terms)
      SELECT seq, id, lane, due, 'completed', fence, token, worker, due + 86400, params, terms FROM gone
      RETURNING seq, due, worker
    ), logged AS (
      INSERT INTO event SELECT seq, 3, due, 'completed', worker FROM ended
    )
    SELECT seq FROM ended
    """,
)

NAMED = Shape(
    "update in place, id apart, no log of what the row tells",
    """
    CREATE TABLE job (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL, lane bigint NOT NULL,
      due bigint NOT NULL, status text NOT NULL, fence bigint NOT NULL DEFAULT 0, token text, worker text,
      lease_expires bigint, expires bigint, params bytea NOT NULL, terms bytea NOT NULL, result bytea
    ) WITH (autovacuum_enabled = off);
    CREATE TABLE name (id text PRIMARY KEY, job bigint NOT NULL);
    CREATE INDEX job_pending ON job (lane, due, seq) WHERE status = 'pending';
    CREATE INDEX job_leases ON job (lease_expires) WHERE status = 'claimed';
    CREATE INDEX job_finished ON job (lane, status, expires) WHERE expires IS NOT NULL;
    """,
    f"WITH added AS ({IN_PLACE.fill} RETURNING id, seq) INSERT INTO name SELECT id, seq FROM added",
    """
    WITH picked AS MATERIALIZED (
      SELECT seq FROM job WHERE lane = 1 AND status = 'pending' AND (due, seq) >= ($1::bigint, $2::bigint)
      ORDER BY due, seq LIMIT $3::integer FOR UPDATE SKIP LOCKED
    )
    UPDATE job SET status = 'claimed', fence = fence + 1, token = 'token', worker = 'worker', lease_expires = due + 30
    FROM picked WHERE job.seq = picked.seq RETURNING job.id, job.due, job.seq, job.fence, job.params, job.terms
    """,
    """
    UPDATE job SET status = 'completed', expires = due + 86400
    FROM unnest($1::text[]) AS asked (id) JOIN name ON name.id = asked.id
    WHERE job.seq = name.job AND job.status || '' = 'claimed' AND token = 'token' RETURNING seq
    """,
)

SHAPES = (IN_PLACE, NAMED, HISTORY)
