-- job_by_seq.sql: whole jobs by their place in the enqueue order.
-- Race: one that is gone meanwhile is missing. Index: primary keys. Order: none.
SELECT whole.* FROM dibs_whole AS whole WHERE whole.seq IN %s
