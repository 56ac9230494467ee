-- write_keys.sql: which of these unique keys do unfinished jobs have, and which jobs? And what time is it now? One row at least.
-- Race: a redrive and an enqueue with one key: the unique index holds, and whoever it stops asks again. A key that became
--   free since the rows were locked: what begins now is later than what ended then
--   (test_a_redrive_is_later_than_the_end_that_set_its_key_free). Index: dibs_job_unique_key. Order: none.
WITH moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
)
SELECT moment.now, job.unique_key, job.id FROM moment LEFT JOIN dibs_job AS job
  ON job.unique_key IS NOT NULL AND job.expires IS NULL AND job.unique_key = ANY ($2::text[])
