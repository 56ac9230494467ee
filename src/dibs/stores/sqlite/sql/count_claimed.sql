-- count_claimed.sql: how many jobs of each lane are held.
-- Race: none, a snapshot. Index: dibs_job_leases, covering; as long as there are claims, which is what workers hold. Order: none.
SELECT lane, count(*) FROM dibs_job INDEXED BY dibs_job_leases WHERE status = 'claimed' GROUP BY lane
