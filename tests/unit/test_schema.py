"""Which schemas of a task are kept and good: pure rules, with times of one's own."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.domain.errors import InvalidRequest, TooLarge
from dibs.domain.schema import HELD, MAX_SCHEMA, RENEWED, SAID, Offer, Record, check_offers, good, offer_of, published

MINUTE = 60_000_000
OLD, NEW, THIRD = (offer_of("t", {"title": name}) for name in ("old", "new", "third"))


def after(*steps: tuple[int, Offer]) -> tuple[Record, list[bool]]:
    """What is kept after workers have said so, at minutes of the day; and which of them had to write."""
    record: Record | None = None
    wrote = []
    for minute, offer in steps:
        changed = published(record, offer, minute * MINUTE, "w")
        wrote.append(changed is not None)
        record = changed or record
    assert record is not None
    return record, wrote


def names(record: Record, minute: int) -> list[str]:
    known = {offer.digest: name for offer, name in ((OLD, "old"), (NEW, "new"), (THIRD, "third"))}
    return [known[version.digest] for version in good(record, minute * MINUTE)]


def test_a_digest_is_that_of_canonical_json() -> None:
    assert offer_of("t", {"a": 1, "b": [2]}).digest == offer_of("t", {"b": [2], "a": 1}).digest
    assert OLD.digest != NEW.digest


def test_the_same_is_not_written_again_until_it_nears_its_end() -> None:
    nearly, due = RENEWED // MINUTE - 1, RENEWED // MINUTE
    record, wrote = after((0, OLD), (1, OLD), (nearly, OLD), (due, OLD), (due + 1, OLD))
    assert wrote == [True, False, False, True, False]
    assert names(record, due + 100_000) == ["old"]


def test_a_newer_one_leaves_the_older_an_hour() -> None:
    long_after = 10_000
    record, _ = after((0, OLD), (long_after, NEW))
    assert names(record, long_after) == names(record, long_after + 59) == ["new", "old"]
    record, wrote = after((0, OLD), (long_after, NEW), (long_after + 30, NEW))
    assert wrote == [True, True, True]
    assert names(record, long_after + 59) == ["new", "old"]
    assert names(record, long_after + 60) == ["new"]


def test_the_older_one_stays_good_while_a_worker_has_it() -> None:
    """A canary may run for days beside the rest."""
    steps = [(0, OLD), (100, NEW)]
    for minute in range(130, 3000, 30):
        steps += [(minute, OLD), (minute, NEW)]
    record, _ = after(*steps)
    assert names(record, 3000) == ["new", "old"]


def test_after_a_rollback_the_newer_one_ends() -> None:
    record, _ = after((0, OLD), (100, NEW), (110, OLD), (140, OLD), (170, OLD))
    assert names(record, 170) == ["old"]
    assert len(record.versions) == 1


def test_a_third_takes_the_place_of_the_one_that_was_heard_of_longest_ago() -> None:
    record, _ = after((0, OLD), (10, NEW), (40, NEW), (41, THIRD))
    assert names(record, 41) == ["third", "new"]
    record, _ = after((0, OLD), (10, NEW), (40, OLD), (41, THIRD))
    assert names(record, 41) == ["third", "old"]


def test_when_no_worker_is_left_the_last_word_stands() -> None:
    record, _ = after((0, OLD), (10, NEW), (40, NEW))
    assert names(record, 50_000) == ["new"]


@given(st.lists(st.tuples(st.integers(0, 90), st.sampled_from([OLD, NEW])), min_size=1, max_size=40))
def test_what_a_worker_has_just_said_is_good_for_most_of_an_hour(gaps: list[tuple[int, Offer]]) -> None:
    record: Record | None = None
    now = 0
    for gap, offer in gaps:
        now += gap * MINUTE
        record = published(record, offer, now, None) or record
        assert record is not None
        assert 1 <= len(record.versions) <= 2
        for later in (now, now + HELD - SAID - 1):
            assert offer.digest in [version.digest for version in good(record, later)]


def test_what_is_too_large_or_no_name_is_refused() -> None:
    with pytest.raises(TooLarge):
        offer_of("t", {"title": "x" * MAX_SCHEMA})
    with pytest.raises(InvalidRequest) as refused:
        check_offers([OLD, Offer("no name", b"{}")])
    assert refused.value.fields == ("schemas[1].task",)
    with pytest.raises(InvalidRequest) as refused:
        check_offers([Offer(f"t{number}", b"{}") for number, _ in zip(count(), range(101), strict=False)])
    assert refused.value.fields == ("schemas",)
