-- job_by_id.sql: whole jobs by id.
-- Race: none, a snapshot. Index: dibs_name_pkey, primary keys. Order: none.
SELECT whole.* FROM dibs_name AS name JOIN dibs_whole AS whole ON whole.seq = name.job WHERE name.id = ANY ($1::text[])
