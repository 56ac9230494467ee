-- lane_unused.sql: lanes that no job refers to, a few at a time.
-- Race: an enqueue into one; asked again once it is locked. Index: primary key, dibs_job_agenda. Order: primary key.
SELECT lane.id FROM dibs_lane AS lane FORCE INDEX (PRIMARY)
WHERE lane.id > %s
  AND NOT EXISTS (SELECT 1 FROM dibs_job AS job FORCE INDEX (dibs_job_agenda) WHERE job.lane = lane.id)
ORDER BY lane.id LIMIT %s
