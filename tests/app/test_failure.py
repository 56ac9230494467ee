"""What is kept of an exception: never more than 8 KiB, never nothing, never another exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dibs
from dibs import Error, InvalidRequest
from dibs.domain.failure import MAX_ERROR, describe


def size(error: Error) -> int:
    return sum(len(text.encode()) for text in (error.message, error.kind, error.code, error.traceback) if text)


def raised(error: BaseException) -> BaseException:
    try:
        raise error  # noqa: TRY301 - to give it a traceback
    except BaseException as caught:  # noqa: BLE001 - to give it a traceback
        return caught


class Unprintable(Exception):
    code = "odd"

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Hostile(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("no code")


def test_an_exception_becomes_an_error() -> None:
    error = describe(raised(ValueError("bad")))
    assert (error.message, error.kind, error.code) == ("bad", "ValueError", None)
    assert error.traceback is not None
    assert error.traceback.startswith("Traceback")
    assert error.traceback.endswith("ValueError: bad\n")
    assert describe(raised(dibs.Fail("no", code="gone"))).code == "gone"
    assert describe(raised(dibs.NotFound("x"))).code == "not_found"
    assert describe(raised(SystemExit(3))).code is None
    assert describe(raised(KeyError())).message == "KeyError"


def test_texts_and_errors() -> None:
    assert describe("no") == Error("no")
    assert describe("") == Error("failed")
    assert describe(Error("a", "b", "c", "d")) == Error("a", "b", "c", "d")
    for other in (None, 5, b"x", ValueError):
        with pytest.raises(InvalidRequest, match="error"):
            describe(other)


def test_an_exception_that_cannot_be_printed() -> None:
    error = describe(raised(Unprintable()))
    assert (error.kind, error.code) == ("Unprintable", "odd")
    assert "Unprintable" in error.message
    assert describe(raised(Hostile("x"))).message == "x"


def test_a_deep_recursion() -> None:
    def down() -> None:
        down()

    with pytest.raises(RecursionError) as caught:
        down()
    error = describe(caught.value)
    assert error.kind == "RecursionError"
    assert size(error) <= MAX_ERROR


def test_the_end_of_a_traceback_is_kept() -> None:
    error = describe(raised(ValueError("é" * 100_000)))
    assert size(error) <= MAX_ERROR
    assert error.traceback is not None
    assert error.traceback.startswith("…")
    assert error.traceback.endswith("é\n")
    assert error.message.endswith("…")


def test_texts_that_a_store_could_not_hold_are_spelled_out() -> None:
    assert describe("a\0b\udc80").message == "a\\x00b\\udc80"


anything = st.text(st.characters(codec=None), max_size=12_000)


@given(anything, anything, st.none() | anything, st.none() | anything)
def test_all_of_it_stays_within_8_kib(message: str, kind: str, code: str | None, traceback: str | None) -> None:
    error = describe(Error(message, kind, code, traceback))
    assert size(error) <= MAX_ERROR
    assert error.kind
