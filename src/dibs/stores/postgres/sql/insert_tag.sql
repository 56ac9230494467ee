-- insert_tag.sql: new jobs' tags, so that they are found by them.
-- Race: none, in the transaction of insert. Index: dibs_job_id. Order: none.
INSERT INTO dibs_tag (tag, job)
SELECT DISTINCT tagged.tag, job.seq FROM unnest($1::text[], $2::text[]) AS tagged (id, tag) JOIN dibs_job AS job ON job.id = tagged.id
