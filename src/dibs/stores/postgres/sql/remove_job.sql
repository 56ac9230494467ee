-- remove_job.sql: jobs go, with their names, logs and tags.
-- Race: none, the rows are locked. Index: primary keys. Order: none.
WITH tagged AS (
  DELETE FROM dibs_tag WHERE ctid = ANY (ARRAY(
    SELECT tag.ctid FROM unnest($2::text[], $3::bigint[]) AS gone (tag, job) CROSS JOIN LATERAL (
      SELECT tag.ctid FROM dibs_tag AS tag WHERE tag.tag = gone.tag AND tag.job = gone.job OFFSET 0) AS tag))
), logged AS (
  DELETE FROM dibs_event WHERE job = ANY ($1::bigint[])
), named AS (
  DELETE FROM dibs_name WHERE id = ANY (ARRAY(SELECT id FROM dibs_job WHERE seq = ANY ($1::bigint[])))
)
DELETE FROM dibs_job WHERE seq = ANY ($1::bigint[])
