"""Bad input is found here, all of it at once, each problem with the name of its field and what to do."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.domain.checks import (
    MAX_KEY,
    PRIORITIES,
    check_defaults,
    check_duration,
    check_id,
    check_name,
    check_tags,
    check_text,
    check_time,
    check_trace,
)
from dibs.domain.errors import InvalidJob, InvalidRequest, Problem, TooLarge
from dibs.domain.job import Draft, Retention, Terms
from dibs.domain.models import write
from dibs.domain.retry import Duration, micros
from dibs.domain.settings import APP_DEFAULTS, Defaults

if TYPE_CHECKING:
    from dibs.domain.newjob import NewJob
    from dibs.domain.settings import Config

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_LEAST, _MOST = -(2**63), 2**64 - 1
_LONG = re.compile(rb"[0-9]{19}")  # as many digits as the first number outside

_encode = msgspec.json.Encoder(order="sorted", enc_hook=write).encode


def draft(new: NewJob, config: Config, id: str) -> Draft:
    """Check a new job, settle what it leaves open, and make it ready to be inserted; ``id`` is used if it has none."""
    problems = check_new_job(new)
    params_json = b""
    try:
        params_json = encode("params", new.params, config.max_params_bytes, InvalidJob)
    except InvalidJob as error:
        problems += error.problems
    except TooLarge:
        if not problems:
            raise
    if problems:
        raise InvalidJob(problems)
    queue = new.queue or config.queue
    chosen = _resolve(new, config, queue)
    key, unique_key = new.idempotency_key, new.unique_key
    if new.unique:
        unique_key = fingerprint(new.task, queue, params_json)
    timeout = chosen.get("timeout")
    return Draft(
        new.id or id,
        queue,
        new.task,
        params_json,
        _priority(chosen["priority"]),
        chosen["max_attempts"],
        Terms(
            retry=chosen["retry"].in_seconds(),
            timeout_us=None if timeout is None else micros(timeout),
            lease_us=micros(chosen["lease"]),
            tags=tuple(dict.fromkeys(new.tags)),
            trace=new.trace,
        ),
        _retention(chosen["retention"]).keep(keyed=key is not None),
        delay_us=0 if new.delay is None else micros(new.delay),
        scheduled_us=None if new.scheduled_at is None else (new.scheduled_at - _EPOCH) // timedelta(microseconds=1),
        idempotency_key=key,
        unique_key=unique_key,
        batch_id=new.batch,
    )


def _resolve(new: NewJob, config: Config, queue: str) -> Defaults:
    """Call (with the task's options already in it), then queue, then app, then what dibs itself says."""
    call = Defaults()
    for field in ("priority", "max_attempts", "retry", "timeout", "lease", "retention"):
        value = getattr(new, field)
        if value is not None:
            call[field] = value
    return {**APP_DEFAULTS, **config.defaults, **config.queues.get(queue, {}), **call}


def _retention(value: Retention | Duration) -> Retention:
    """Read a bare duration as how long completed and cancelled jobs are kept; the dead letter keeps its own time."""
    if isinstance(value, float | int | timedelta):
        return Retention(completed=value, cancelled=value, keyed=value)
    return value


def _priority(value: int | str) -> int:
    return PRIORITIES[value] if isinstance(value, str) else value


def fingerprint(task: str, queue: str, params_json: bytes) -> str:
    """Make the unique key that ``unique=True`` stands for."""
    return "same:" + sha256(b"\0".join((task.encode(), queue.encode(), params_json))).hexdigest()


def check_new_job(new: NewJob) -> list[Problem]:
    """List what is wrong with a new job, but for its params."""
    problems = check_name("task", new.task)
    if new.queue is not None:
        problems += check_name("queue", new.queue)
    if new.id is not None:
        problems += check_id("id", new.id)
    if new.delay is not None:
        problems += check_duration("delay", new.delay, least=0)
        if new.scheduled_at is not None:
            problems.append(Problem("scheduled_at", "cannot be given together with delay; choose one"))
    if new.scheduled_at is not None:
        problems += check_time("scheduled_at", new.scheduled_at)
    if new.unique and new.unique_key is not None:
        problems.append(Problem("unique_key", "cannot be given together with unique; choose one"))
    for field, value in (
        ("idempotency_key", new.idempotency_key),
        ("unique_key", new.unique_key),
        ("batch", new.batch),
    ):
        if value is not None:
            problems += check_text(field, value, most=MAX_KEY)
    problems += check_tags(new.tags)
    if new.trace is not None:
        problems += check_trace(new.trace)
    given = {field: getattr(new, field) for field in Defaults.__annotations__ if getattr(new, field) is not None}
    return problems + check_defaults(given)


def encode(field: str, value: Any, limit: int, error: type[InvalidJob | InvalidRequest]) -> bytes:
    """Turn a value into canonical JSON: sorted keys, no white space, UTF-8; or say why it is not JSON."""
    try:
        encoded = _encode(value)
        # msgspec writes what is not a number as null, and whole numbers of any length: only there is a closer look due.
        if b"null" in encoded or _LONG.search(encoded):
            _refuse_numbers(field, msgspec.to_builtins(value, enc_hook=write, str_keys=True), error)
    except RecursionError:
        raise error([Problem(field, "is nested too deeply, or contains itself")]) from None
    except UnicodeEncodeError:
        raise error([Problem(field, "contains a lone surrogate, which is not a character")]) from None
    except (TypeError, ValueError) as reason:
        raise error([Problem(field, f"is not JSON: {reason}")]) from None
    if len(encoded) > limit:
        raise TooLarge(field, len(encoded), limit)
    return encoded


def _refuse_numbers(field: str, value: Any, error: type[InvalidJob | InvalidRequest]) -> None:
    """Refuse the numbers that not every reader of JSON can read back as they are."""
    if isinstance(value, float) and not math.isfinite(value):
        raise error([Problem(field, f"must be finite; {value} is not a JSON number")])
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        raise error([Problem(field, "is a number outside 64 bits; send it as a text")])
    if isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_numbers(f"{field}.{key}", item, error)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_numbers(f"{field}[{index}]", item, error)
