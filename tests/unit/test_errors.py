"""The error table of the contract, line by line."""

from __future__ import annotations

import inspect

import pytest

from dibs.domain import errors
from dibs.domain.errors import (
    DibsError,
    IdempotencyMismatch,
    Invalid,
    InvalidJob,
    InvalidRequest,
    NotClaimable,
    Problem,
    SchemaOutdated,
    StoreUnavailable,
    TooLarge,
)

TABLE = {
    "InvalidJob": ("invalid", 400, 2),
    "InvalidRequest": ("invalid", 400, 2),
    "Unauthorized": ("unauthorized", 401, 6),
    "Forbidden": ("forbidden", 403, 6),
    "NotFound": ("not_found", 404, 5),
    "NothingPending": ("nothing_pending", 404, 3),
    "LeaseLost": ("lease_lost", 409, 4),
    "UniqueConflict": ("unique_conflict", 409, 1),
    "TooLarge": ("too_large", 413, 2),
    "IdempotencyMismatch": ("idempotency_mismatch", 422, 1),
    "RateLimited": ("rate_limited", 429, 7),
    "StoreUnavailable": ("store_unavailable", 503, 8),
    "SchemaOutdated": ("schema_outdated", 503, 8),
}

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DibsError)]


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_the_contract(name: str):
    kind = getattr(errors, name)

    assert (kind.code, kind.http_status, kind.exit_code) == TABLE[name]


@pytest.mark.parametrize("reason", ["claimed", "not_due", "paused", "limited", "finished"])
def test_each_reason_not_to_be_claimable_is_a_code(reason: str):
    error = NotClaimable(reason, "because")

    assert (error.code, error.reason, error.http_status, error.exit_code) == (reason, reason, 409, 3)
    assert NotClaimable.code == "not_claimable"  # the class keeps its own


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_a_status_and_a_sentence(kind: type[DibsError]):
    assert kind.code
    assert 400 <= kind.http_status < 600
    assert 1 <= kind.exit_code <= 8
    assert (kind.__doc__ or "").split("\n")[0].endswith(".")
    assert kind.__name__ in (errors.__doc__ or "")


def test_an_error_says_what_is_wrong_and_what_to_do():
    assert str(errors.NotFound()).startswith("There is no such job. (It may have been pruned")
    assert str(errors.NotFound("gone", hint="Look elsewhere.")) == "gone (Look elsewhere.)"
    assert str(errors.NotFound("gone", hint="")) == "gone"
    assert errors.NotFound("gone", hint="x").hint != errors.NotFound.hint
    assert str(StoreUnavailable("away")).startswith("away (Check")


def test_bad_input_lists_all_its_problems_by_field():
    error = InvalidJob([Problem("task", "is empty"), Problem("tags[1]", "is too long")])

    assert error.fields == ("task", "tags[1]")
    assert str(error) == "task: is empty; tags[1]: is too long"
    assert isinstance(error, Invalid)
    assert not isinstance(error, InvalidRequest)


def test_what_is_too_large_says_by_how_much():
    error = TooLarge("params", 2_000_000, 1_048_576)

    assert (error.field, error.size, error.limit) == ("params", 2_000_000, 1_048_576)
    assert error.message == "params: 2,000,000 bytes, 1,048,576 at most"


def test_a_mismatch_names_its_place_in_a_batch():
    assert IdempotencyMismatch("id", "differs", 3).message == "jobs[3]: differs"
    assert (IdempotencyMismatch("id", "differs").message, IdempotencyMismatch("id", "d").index) == ("differs", None)


def test_an_outdated_schema_is_a_store_that_cannot_be_used():
    assert issubclass(SchemaOutdated, StoreUnavailable)
    assert "dibs migrate" in SchemaOutdated.hint
