"""Settings are checked once, all of them, and nothing unknown is taken."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.domain.errors import InvalidRequest
from dibs.domain.job import Keep, Retention
from dibs.domain.newjob import NewJob
from dibs.domain.retry import SECOND, Backoff
from dibs.domain.settings import APP_DEFAULTS, DEFAULTS, Config, Settings
from dibs.domain.validate import draft

DAY = 86_400 * SECOND


def refused(**settings: Any) -> list[str]:
    with pytest.raises(InvalidRequest) as raised:
        Config.of(**settings)
    return sorted(raised.value.fields)


def test_nothing_has_to_be_set():
    config = Config.of()

    assert (config.queue, config.max_params_bytes, config.max_result_bytes) == ("default", 2**20, 2**20)
    assert (config.reap_every, config.prune_every, config.poll_every) == (3.0, 30.0, 1.0)
    assert (config.defaults, config.queues) == ({}, {})


def test_everything_that_is_wrong_is_told_at_once():
    assert refused(
        colour="red",
        queue="../q",
        priority="urgent",
        max_attempts=0,
        retry=5,
        timeout=0,
        lease=-1,
        retention="long",
        max_params_bytes=0,
        max_result_bytes=True,
        reap_every=0,
        prune_every="often",
        poll_every=float("nan"),
        queues={"a b": {}, "mail": {"lease": 0, "colour": 1, "retry": Backoff(-1, 1)}, "x": 5},
    ) == sorted(
        [
            "colour", "queue", "priority", "max_attempts", "retry", "timeout", "lease", "retention", "max_params_bytes",
            "max_result_bytes", "reap_every", "prune_every", "poll_every", "queues['a b']", "queues['mail'].lease",
            "queues['mail'].colour", "queues['mail'].retry.base", "queues['x']",
        ]
    )  # fmt: skip


@pytest.mark.parametrize("name", Settings.__annotations__)
@pytest.mark.parametrize("value", [object(), -1, float("nan"), "", b"x"], ids=["object", "-1", "nan", "empty", "bytes"])
def test_a_bad_setting_is_named(name: str, value: Any):
    if (name, value) == ("priority", -1):
        return
    assert all(field.startswith(name) for field in refused(**{name: value}))


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        Config.of().queue = "other"  # type: ignore[misc]


def test_durations_may_be_timedeltas():
    config = Config.of(
        reap_every=timedelta(seconds=2), poll_every=timedelta(milliseconds=100), lease=timedelta(minutes=1)
    )

    assert (config.reap_every, config.poll_every) == (2.0, 0.1)
    assert draft(NewJob("t"), config, "id").terms.lease_us == 60 * SECOND


LEVELS: dict[str, tuple[Any, Any, Any]] = {
    "priority": (1, "high", -7),
    "max_attempts": (4, 5, 6),
    "retry": (Backoff(1, 2), Backoff(3, 4), Backoff(5, 6)),
    "timeout": (1, 2, timedelta(seconds=3)),
    "lease": (10, 20, timedelta(seconds=30)),
    "retention": (5, Retention(completed=6, cancelled=6, failed=6, keyed=6), timedelta(seconds=7)),
}


@given(st.sets(st.sampled_from([(field, level) for field in DEFAULTS for level in range(3)])))
def test_call_then_queue_then_app_then_dibs(given_: set[tuple[str, int]]):
    def at(level: int) -> dict[str, Any]:
        return {field: LEVELS[field][level] for field in DEFAULTS if (field, level) in given_}

    settings: dict[str, Any] = {**at(0), "queues": {"q": at(1), "other": {f: LEVELS[f][0] for f in DEFAULTS}}}
    config = Config.of(**settings)
    made = draft(NewJob("t", queue="q", **at(2)), config, "id")

    def alone(field: str) -> Any:
        level = max((level for name, level in given_ if name == field), default=None)
        value: Any = LEVELS[field][level] if level is not None else APP_DEFAULTS.get(field)
        return draft(NewJob("t", **{field: value}), Config.of(), "id")

    assert made.priority == alone("priority").priority
    assert made.max_attempts == alone("max_attempts").max_attempts
    assert made.terms.retry == alone("retry").terms.retry
    assert made.terms.timeout_us == alone("timeout").terms.timeout_us
    assert made.terms.lease_us == alone("lease").terms.lease_us
    assert made.keep == alone("retention").keep


@pytest.mark.parametrize(
    ("retention", "key", "keep"),
    [
        (None, None, Keep(DAY, 30 * DAY, DAY)),
        (None, "k", Keep(7 * DAY, 30 * DAY, 7 * DAY)),
        (0, None, Keep(0, 30 * DAY, 0)),
        (0, "k", Keep(0, 30 * DAY, 0)),
        (10 * 86_400, "k", Keep(10 * DAY, 30 * DAY, 10 * DAY)),
        (Retention(completed=0, failed=0), None, Keep(0, 0, DAY)),
        (Retention(completed=0), "k", Keep(7 * DAY, 30 * DAY, 7 * DAY)),
        (Retention(completed=0, cancelled=0, keyed=0), "k", Keep(0, 30 * DAY, 0)),
    ],
)
def test_how_long_a_job_is_kept(retention: Any, key: str | None, keep: Keep):
    assert draft(NewJob("t", retention=retention, idempotency_key=key), Config.of(), "id").keep == keep
