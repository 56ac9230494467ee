-- extend.sql: longer leases, and how far the work has come, for those of these claims that are current.
-- Race: a claim that was just taken over: compared under the row's lock. A row that another transaction holds is skipped and
--   told apart, unless what is committed says already that the claim is lost. So is one that changes between our snapshot and
--   its lock, as it is not found by ctid (test_what_changes_before_its_lock_is_left_alone).
-- Index: dibs_name_pkey, primary key, then ctid. (|| '' hides the status from the planner: it would walk all claims. LATERAL
--   and ctid leave it no choice: ADR 8.)
-- Order: told by place.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
), asked AS MATERIALIZED (
  SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[], $5::double precision[], $6::text[]) WITH ORDINALITY
    AS asked (id, fence, token, progress, note, place)
), held AS MATERIALIZED (
  SELECT job.ctid, asked.place, asked.progress, asked.note
  FROM asked CROSS JOIN LATERAL (
    SELECT name.job FROM dibs_name AS name WHERE name.id = asked.id OFFSET 0
  ) AS name CROSS JOIN LATERAL (
    SELECT job.ctid FROM dibs_job AS job
    WHERE job.seq = name.job AND job.status || '' = 'claimed' AND job.fence = asked.fence AND job.token = asked.token
    FOR UPDATE SKIP LOCKED
  ) AS job
), extended AS (
  UPDATE dibs_job AS job SET
    lease_expires = greatest(job.lease_expires, greatest(moment.now, job.updated) + job.claim_lease),
    updated = greatest(moment.now, job.updated), progress = coalesce(held.progress, job.progress),
    progress_note = CASE WHEN held.progress IS NULL THEN job.progress_note ELSE held.note END
  FROM moment, held WHERE job.ctid = held.ctid
  RETURNING held.place
), kept AS MATERIALIZED (
  SELECT setval('dibs_clock', greatest(moment.now, (SELECT last_value FROM dibs_clock))) AS at
  FROM moment WHERE EXISTS (SELECT FROM extended)
)
SELECT extended.place, 'applied', kept.at FROM extended LEFT JOIN kept ON true
UNION ALL
SELECT asked.place, 'busy', NULL
FROM asked CROSS JOIN LATERAL (
  SELECT name.job FROM dibs_name AS name WHERE name.id = asked.id OFFSET 0
) AS name CROSS JOIN LATERAL (
  SELECT FROM dibs_job AS job
  WHERE job.seq = name.job AND job.status || '' = 'claimed' AND job.fence = asked.fence AND job.token = asked.token
  OFFSET 0
) AS job
WHERE NOT EXISTS (SELECT FROM extended WHERE extended.place = asked.place)
