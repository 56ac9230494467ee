"""What can be set: defaults of jobs, limits, and how often things are looked after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack, cast

import msgspec

from dibs.domain.checks import check_defaults, check_duration, check_name
from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import Retention
from dibs.domain.retry import SECOND, Backoff, Duration, micros

MIB = 1024 * 1024

MAX_BATCH = 1000
MAX_BATCH_BYTES = 16 * MIB
MAX_CLAIM = 1000


class Defaults(TypedDict, total=False):
    """What a task, a queue or the app may settle for jobs that do not say it themselves."""

    priority: int | str
    max_attempts: int
    retry: Backoff
    timeout: Duration
    lease: Duration
    retention: Retention | Duration


class Settings(Defaults, total=False):
    """The keyword arguments of ``dibs.App``."""

    queue: str  # where jobs go that name no queue
    queues: Mapping[str, Defaults]  # defaults by queue
    max_params_bytes: int
    max_result_bytes: int
    reap_every: Duration  # how often leases that ran out are looked for
    prune_every: Duration  # how often finished jobs whose time is over are removed; more seldom while there are none
    poll_every: Duration  # how long a waiting claim trusts the store to wake it


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, checked; one object for the life of an app."""

    defaults: Defaults
    queues: Mapping[str, Defaults]
    queue: str = "default"
    max_params_bytes: int = MIB
    max_result_bytes: int = MIB
    reap_every: float = 3.0
    prune_every: float = 30.0
    poll_every: float = 1.0

    @classmethod
    def of(cls, **settings: Unpack[Settings]) -> Config:
        """Check all settings at once and freeze them."""
        given: dict[str, Any] = dict(settings)
        problems = _check_settings(given)
        if problems:
            raise InvalidRequest(problems)
        defaults = cast("Defaults", {key: given.pop(key) for key in DEFAULTS if key in given})
        queues = {name: cast("Defaults", dict(options)) for name, options in given.pop("queues", {}).items()}
        for name in ("reap_every", "prune_every", "poll_every"):
            if name in given:
                given[name] = micros(given[name]) / SECOND
        return cls(defaults=defaults, queues=queues, **given)


DEFAULTS = tuple(Defaults.__annotations__)
APP_DEFAULTS = Defaults(
    priority=0,
    max_attempts=3,
    retry=Backoff(),
    lease=300.0,
    retention=Retention(),
)
"""What holds where no one says otherwise. There is no timeout unless one is set."""


def _check_settings(given: Mapping[str, Any]) -> list[Problem]:
    problems: list[Problem] = []
    known = set(Settings.__annotations__)
    for name, value in given.items():
        if name not in known:
            problems.append(Problem(name, f"is not a setting; there are {', '.join(sorted(known))}"))
        elif name == "queue":
            problems += check_name("queue", value)
        elif name == "queues":
            problems += _check_queues(value)
        elif name in {"max_params_bytes", "max_result_bytes"}:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                problems.append(Problem(name, "must be a positive number of bytes"))
        elif name.endswith("_every"):
            problems += check_duration(name, value, least=0.001)
    return problems + check_defaults({key: given[key] for key in DEFAULTS if key in given})


def _check_queues(queues: Any) -> list[Problem]:
    if not isinstance(queues, Mapping):
        return [Problem("queues", "must map queue names to their defaults")]
    problems: list[Problem] = []
    for name, options in queues.items():
        where = f"queues[{name!r}]"
        problems += [Problem(where, problem.message) for problem in check_name("queue", name)]
        if not isinstance(options, Mapping):
            problems.append(Problem(where, "must be a mapping of defaults"))
            continue
        unknown = sorted(set(options) - set(DEFAULTS))
        problems += [Problem(f"{where}.{key}", "is not a default that a queue can have") for key in unknown]
        problems += [
            Problem(f"{where}.{problem.field}", problem.message)
            for problem in check_defaults({key: options[key] for key in DEFAULTS if key in options})
        ]
    return problems
