-- prune_find.sql: finished jobs whose time is over, lane by lane, so that it is one seek for each kind of end.
-- Race: redriven a moment later; prune_due asks again under the write lock. Index: dibs_job_finished. Order: none.
SELECT job.seq
FROM dibs_lane AS lane
CROSS JOIN (SELECT 'completed' AS status UNION ALL SELECT 'failed' UNION ALL SELECT 'cancelled') AS ended
CROSS JOIN dibs_job AS job INDEXED BY dibs_job_finished
WHERE job.lane = lane.id AND job.status = ended.status AND job.expires <= ?1
LIMIT ?2
