-- insert_tag.sql: new jobs' tags, so that they are found by them.
-- Race: none, in the transaction of insert. Index: dibs_name_pkey (LATERAL: ADR 8). Order: none.
INSERT INTO dibs_tag (tag, job)
SELECT DISTINCT tagged.tag, name.job
FROM unnest($1::text[], $2::text[]) AS tagged (id, tag)
CROSS JOIN LATERAL (SELECT name.job FROM dibs_name AS name WHERE name.id = tagged.id OFFSET 0) AS name
