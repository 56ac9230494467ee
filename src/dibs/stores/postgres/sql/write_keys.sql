-- write_keys.sql: which of these unique keys do unfinished jobs have, and which jobs?
-- Race: a redrive and an enqueue with one key: the unique index holds, and whoever it stops asks again. Index:
--   dibs_job_unique_key. Order: none.
SELECT unique_key, id FROM dibs_job WHERE unique_key IS NOT NULL AND expires IS NULL AND unique_key = ANY ($1::text[])
