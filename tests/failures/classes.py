"""The failures that users of other queues reported, and the tests that provoke each on every store where it can be.

What is written here are names. Which of them there are, and on which stores they run, is asked of pytest
(``collecting.py``): a test that is renamed, or that no longer runs on a store, leaves a hole, and holes are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BROKER = [
    f"tests/broker/test_{name}.py" for name in ("memory", "sqlite", "postgres", "mysql", "redis", "cluster", "http")
]
STORE = [f"tests/conformance/test_{name}.py" for name in ("memory", "sqlite", "postgres", "mysql", "redis", "cluster")]
SUITES = {"broker suite": BROKER, "store suite": STORE}
"""Tests that are written once and run on each store, by the files that run them."""


class Failure(NamedTuple):
    """A class of failures."""

    name: str  # as the planted mistakes have it
    reports: str  # in the trackers of other projects
    promises: str  # of the contract, that it would break
    tests: tuple[str, ...]  # file::name, or suite::name
    nowhere: Mapping[str, str] = {}  # where it cannot happen, and why not

    def files(self) -> set[str]:
        """Name the files in which its tests are."""
        return {file for test in self.tests for file in SUITES.get(test.partition("::")[0], [test.partition("::")[0]])}


_NO_PROCESS = "its workers are one process, and its jobs end with it"
_NO_FILE = "there is no file"
_BEHIND = "it is that of the store behind the server"
_NO_SERVER = "there is no server to lose"

FAILURES = [
    Failure(
        "lost when a worker dies",
        "rq#2015, rq#2236, sidekiq#6829, huey#844",
        "4, 5",
        (
            "tests/chaos/test_sigkill.py::test_killed",
            "tests/failures/test_deaths.py::test_killed_at_any_point",
            "tests/worker/test_everywhere.py::test_one_that_crashes_is_taken_over",
            "tests/worker/test_everywhere.py::test_sigterm_lets_what_runs_finish_and_gives_back_what_does_not",
        ),
        {"memory": _NO_PROCESS},
    ),
    Failure(
        "stuck for ever",
        "procrastinate#1518, procrastinate#740, oban#862, river#1258, arq#343, graphile#222",
        "5",
        (
            "broker suite::test_crash_counts_as_an_attempt",
            "broker suite::test_claim_reaps_where_it_finds_nothing_and_looks_once_more",
            "tests/failures/test_held.py::test_a_restarted_worker_holds_nothing_of_its_predecessor",
            "tests/worker/test_everywhere.py::test_one_that_crashes_is_taken_over",
        ),
    ),
    Failure(
        "zombie finishes over its successor",
        "kombu#337, celery#5935, river#1302, solid_queue#761, airflow#12396, sidekiq#4611",
        "1 to 3, 7",
        (
            "broker suite::test_zombie_changes_nothing",
            "broker suite::test_zombies_of_every_claim_are_refused",
            "tests/failures/test_held.py::test_a_stopped_process_is_taken_over_and_refused",
            "tests/worker/test_everywhere.py::test_one_that_was_stopped_is_taken_over_and_told_so",
        ),
    ),
    Failure(
        "heartbeat starved",
        "dramatiq#692, bullmq#3056, bullmq#3183, prefect#21276, saq#277",
        "1, 5",
        (
            "tests/chaos/test_stopped.py::test_a_thread_that_blocks_is_not_taken_over_in_memory",
            "tests/chaos/test_stopped.py::test_a_handler_that_blocks_its_loop_is_not_taken_over",
            "tests/worker/test_everywhere.py::test_one_that_is_only_busy_is_not_taken_over",
            "tests/worker/test_everywhere.py::test_one_that_was_stopped_is_taken_over_and_told_so",
        ),
    ),
    Failure(
        "poison pill",
        "sidekiq#4069, faktory#99, dramatiq#213",
        "6",
        (
            "broker suite::test_crash_again_and_again_ends_in_the_dead_letter",
            "tests/chaos/test_poison.py::test_poison",
            "tests/worker/test_everywhere.py::test_a_job_that_kills_its_workers_ends_in_the_dead_letter",
            "tests/worker/test_process_handlers.py::test_a_process_that_dies_fails_its_own_job",
        ),
    ),
    Failure(
        "more leased than returned, wrong plan",
        "odd-jobs#115, good_job#720, good_job#896",
        "10, flat cost",
        (
            "broker suite::test_claim_leases_what_it_returns",
            "store suite::test_claim_hands_each_job_to_one_of_many",
            "tests/stores/sqlite/test_plans.py::test_a_hot_statement_walks_an_index",
            "tests/stores/postgres/test_plans.py::test_a_hot_statement_uses_its_indexes",
            "tests/stores/postgres/test_plans.py::test_a_claim_neither_sorts_nor_filters_what_waits",
            "tests/stores/mysql/test_plans.py::test_a_hot_statement_uses_its_indexes",
            "tests/stores/mysql/test_plans.py::test_a_claim_walks_no_further_than_its_limit",
            "tests/stores/redis/test_cost.py::test_claim_of_a_rare_task_does_not_meet_the_others",
            "tests/stores/test_flat_cost.py::test_claim_costs_the_same_whatever_waits",
        ),
    ),
    Failure(
        "two SQLite libraries on one file",
        "sqlite.org, how to corrupt, §2.2.1",
        "4",
        (
            "tests/unit/test_project.py::test_nothing_imports_sqlite3",
            "tests/failures/test_libraries.py::test_there_is_one_sqlite_in_a_process",
            "tests/failures/test_libraries.py::test_sqlite_holds_its_locks_whatever_is_done",
            "tests/stores/sqlite/test_schema.py::test_an_old_library_is_refused",
        ),
        dict.fromkeys(("memory", "postgresql", "mariadb", "redis", "cluster"), _NO_FILE),
    ),
    Failure(
        "deadlocks, lock waits",
        "solid_queue#609, solid_queue#531, domjudge#2848",
        "4, 5",
        (
            "tests/stores/servers/test_trouble.py::test_no_deadlock_reaches_anyone",
            "tests/stores/servers/test_trouble.py::test_a_claim_and_a_reap_pass_by_what_is_held",
            "tests/stores/postgres/test_deadlocks.py::test_opposite_orders",
            "tests/stores/mysql/test_trouble.py::test_a_deadlock_is_tried_again_and_told_to_no_one",
            "tests/stores/mysql/test_trouble.py::test_a_slot_of_the_clock_that_is_held_holds_up_no_one_for_long",
            "tests/stores/redis/cluster/test_names.py::test_who_dies_after_reserving_leaves_the_name_to_the_next",
            "tests/stores/redis/cluster/test_names.py::test_of_two_who_take_over_a_name_one_has_it",
        ),
        {
            "memory": "one lock, held for one step",
            "sqlite": "one writer at a time; waiting for it is the class below",
            "redis": "scripts run one after the other and wait for nothing",
            "http": _BEHIND,
        },
    ),
    Failure(
        "SQLite locked, WAL without end",
        "huey#445, solid_queue#309, solid_queue#385, opsqueue#85",
        "5, 14",
        (
            "tests/races/test_hammer.py::test_hammer",
            "tests/chaos/test_sqlite_faults.py::test_a_pinned_reader_does_not_make_the_wal_grow_for_ever",
            "tests/chaos/test_sqlite_faults.py::test_a_foreign_writer_is_waited_for",
            "tests/stores/sqlite/test_trouble.py::test_a_lock_is_not_waited_for_for_ever",
        ),
        {**dict.fromkeys(("memory", "postgresql", "mariadb", "redis", "cluster"), _NO_FILE), "http": _BEHIND},
    ),
    Failure(
        "reconnect",
        "celery#8030, celery#10302, graphile#541, pg-boss#850, hatchet#2771, saq#163, redis-py#3310",
        "5",
        (
            "tests/faults/test_faults.py::test_work_goes_on",
            "tests/faults/test_network.py::test_a_server_that_falls_silent_is_noticed",
            "tests/stores/postgres/test_wake.py::test_a_listener_that_was_cut_listens_again",
            "tests/stores/redis/test_network.py::test_a_silent_server_is_given_up_and_asked_again",
            "tests/stores/redis/test_wake.py::test_a_listener_that_was_killed_listens_again",
            "tests/stores/redis/cluster/test_nodes.py::test_a_master_that_is_failed_over_in_the_middle_of_claims",
            "tests/stores/redis/cluster/test_nodes.py::test_who_waits_hears_of_a_job_on_any_master_also_after_a_failover",
            "tests/broker/test_http_faults.py::test_calls_wait_for_a_server_that_starts_again",
            "tests/broker/test_http_faults.py::test_a_network_that_falls_silent",
            "tests/broker/test_http_faults.py::test_a_worker_whose_server_is_killed_again_and_again",
        ),
        {"memory": _NO_SERVER, "sqlite": _NO_SERVER},
    ),
    Failure(
        "a cancelled query's rows reach the next query",
        "seen here, with two MySQL drivers",
        "1, 10",
        (
            "tests/failures/test_given_up.py::test_a_claim_that_is_given_up_reaches_no_one_else",
            "tests/broker/test_batching.py::test_a_sent_claim_whose_caller_gave_up_is_released_at_once",
            "tests/stores/servers/test_trouble.py::test_a_cancelled_claim_leaves_nothing_behind",
            "tests/stores/redis/test_trouble.py::test_a_cancelled_claim_leaves_nothing_behind",
        ),
    ),
    Failure(
        "Redis loss and Cluster",
        "sidekiq#2999, bullmq#1046, bull#540, asynq#1086, harbor#4633, celery#2852",
        "4, as far as Redis keeps it",
        (
            "tests/stores/redis/test_trouble.py::test_a_full_memory_refuses_whole_enqueues_and_lets_jobs_end",
            "tests/stores/redis/test_trouble.py::test_the_server_restarts_and_what_was_acknowledged_is_there",
            "tests/stores/redis/test_trouble.py::test_a_full_disk_refuses_and_forgets_nothing",
            "tests/stores/redis/test_trouble.py::test_a_replica_takes_no_writes_and_is_well_again_as_a_master",
            "tests/stores/redis/test_examine.py::test_a_server_that_throws_jobs_away",
            "tests/stores/redis/test_scripts.py::test_a_script_is_given_every_key_that_it_touches_and_no_other",
            "tests/stores/redis/cluster/test_failover.py::test_a_fence_that_is_given_out_again_does_not_let_the_old_holder_in",
            "tests/stores/redis/cluster/test_failover.py::test_all_that_was_kept_ends_and_what_was_lost_is_of_the_last_second",
            "tests/stores/redis/cluster/test_nodes.py::test_slots_that_move_in_the_middle_of_claims",
        ),
        dict.fromkeys(("memory", "sqlite", "postgresql", "mariadb"), "there is no Redis") | {"http": _BEHIND},
    ),
    Failure(
        "clocks",
        "django-q#236, db-scheduler#433",
        "1, 8",
        (
            "broker suite::test_claim_when_the_clock_was_set_back",
            "store suite::test_reap_is_later_while_the_clock_is_behind",
            "tests/stores/sqlite/test_clock.py::test_another_process_with_a_clock_that_is_behind",
            "tests/stores/servers/test_trouble.py::test_the_server_s_clock_rules",
            "tests/failures/test_clocks.py::test_a_worker_whose_clock_is_an_hour_off",
        ),
    ),
    Failure(
        "uniqueness",
        "oban#1087, oban#1093, oban#1416",
        "9",
        (
            "store suite::test_insert_with_one_key_makes_one_job",
            "tests/races/test_claim_races.py::test_enqueues_with_one_key_from_threads_make_one_job_in_memory",
            "tests/races/test_claim_races.py::test_enqueues_with_one_key_from_eight_processes_make_one_job",
            "tests/chaos/test_sigkill.py::test_killed_as_it_enqueues",
            "tests/failures/test_keys.py::test_enqueues_with_one_key_from_several_processes_make_one_job",
            "tests/failures/test_deaths.py::test_killed_at_any_point",
            "tests/faults/test_network.py::test_enqueue",
            "tests/broker/test_http_faults.py::test_an_enqueue_whose_reply_was_lost_makes_one_job",
        ),
    ),
    Failure(
        "growth",
        "procrastinate#1454, river#785, river#746, river#59, pg-boss#418, tuist#11336, oban#92",
        "13, 14, flat cost",
        (
            "broker suite::test_counts_are_derived_from_the_jobs",
            "store suite::test_prune_keeps_a_job_for_its_time",
            "tests/stores/sqlite/test_upkeep.py::test_prune_leaves_nothing_behind",
            "tests/stores/servers/test_growth.py::test_prune_leaves_nothing_behind",
            "tests/stores/redis/test_cost.py::test_what_is_gone_leaves_nothing_behind",
            "tests/stores/redis/cluster/test_growth.py::test_what_is_gone_leaves_nothing_behind",
            "tests/stores/postgres/test_snapshot.py::test_a_held_snapshot_makes_no_claim_visit_more",
            "tests/stores/mysql/test_snapshot.py::test_a_held_snapshot_makes_no_claim_visit_more",
            "tests/stores/test_flat_cost.py::test_claim_costs_the_same_whatever_waits",
        ),
    ),
    Failure(
        "herd",
        "graphile#224, hatchet#2604, solid_queue#630",
        "14, 15",
        (
            "broker suite::test_fail_backs_off_within_a_range_that_doubles_up_to_a_cap",
            "tests/broker/test_line.py::test_a_job_is_asked_for_twice_however_many_wait",
            "tests/broker/test_maintenance.py::test_those_who_start_together_do_not_look_together",
            "tests/stores/sqlite/test_notice.py::test_whoever_waits_for_nothing_hardly_looks",
            "tests/races/test_claim_races.py::test_forty_apps_open_a_fresh_file_at_once",
            "tests/stores/postgres/test_wake.py::test_fifty_idle_workers_make_few_queries",
            "tests/stores/mysql/test_wake.py::test_fifty_idle_workers_make_few_queries",
            "tests/stores/redis/test_wake.py::test_ten_thousand_who_wait_do_not_poll",
            "tests/failures/test_crowds.py::test_many_who_wait_ask_seldom_also_after_all_began_anew",
        ),
    ),
    Failure(
        "ETA and prefetch",
        "celery#9849, kombu#337",
        "14",
        (
            "tests/failures/test_next_year.py::test_what_is_due_next_year_is_in_no_workers_hands",
            "tests/stores/test_flat_cost.py::test_claim_costs_the_same_whatever_waits",
            "tests/stores/redis/test_cost.py::test_claim_runs_the_same_commands_whatever_waits_beside",
        ),
    ),
    Failure(
        "unsafe input",
        "CVE-2021-23727, rq#2389, CVE-2022-30034, CVE-2026-27482, rq-dashboard#526, CVE-2024-25122",
        "no one gets in",
        (
            "tests/failures/test_hostile.py::test_hostile_text_is_kept_as_it_is_and_does_nothing",
            "broker suite::test_enqueue_names_what_is_wrong",
            "broker suite::test_enqueue_refuses_params_that_are_not_json",
            "tests/failures/test_hostile.py::test_names_that_could_be_more_than_names_are_refused",
            "tests/server/test_auth.py::test_scopes",
            "tests/server/test_auth.py::test_without_keys_web_pages_elsewhere_are_refused",
            "tests/server/test_auth.py::test_forms_of_other_sites_are_not_json",
            "tests/server/test_auth.py::test_a_thousand_guesses_at_once",
            "tests/server/test_bad_input.py::test_bodies",
            "tests/server/test_bad_input.py::test_a_compressed_body",
            "tests/server/test_limits.py::test_depth",
            "tests/server/test_limits.py::test_slow_clients_keep_no_one_waiting",
        ),
    ),
]
