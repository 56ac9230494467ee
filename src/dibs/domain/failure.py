"""From an exception to what is kept of it: short enough, printable, and never in the way of the failure itself."""

from __future__ import annotations

import traceback
from typing import Any

from dibs.domain.errors import InvalidRequest, Problem
from dibs.domain.job import Error

MAX_ERROR = 8 * 1024
"""Bytes of UTF-8, all fields together."""

KIND = "__dibs_kind__"
"""The attribute of an exception that says what it is kept as, if that is not the name of its class."""

_MAX_KIND = 128
_MAX_CODE = 128
_MAX_MESSAGE = 4 * 1024
_FRAMES = 30
_CUT = "…"
_CUT_BYTES = len(_CUT.encode())


def describe(error: object) -> Error:
    """Say what went wrong as an ``Error``, from an exception, a text, or an ``Error`` that may be too long."""
    if isinstance(error, Error):
        return cut(error)
    if isinstance(error, str):
        return cut(Error(error or "failed"))
    if not isinstance(error, BaseException):
        raise InvalidRequest([Problem("error", "must be an exception, a text or a dibs.Error")])
    kind = vars(error).get(KIND) or type(error).__name__
    return cut(Error(_message(error), kind, _code(error), _traceback(error)))


def cut(error: Error) -> Error:
    """Shorten each text so that all of it stays within ``MAX_ERROR``; of a traceback the end is kept."""
    code = None if error.code is None else _head(_text(error.code), _MAX_CODE)
    kind = _head(_text(error.kind) or "error", _MAX_KIND)
    message = _head(_text(error.message), _MAX_MESSAGE)
    left = MAX_ERROR - sum(len(text.encode()) for text in (code or "", kind, message))
    return Error(message, kind, code, None if error.traceback is None else _tail(_text(error.traceback), left))


def _message(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - the user's own __str__ may raise anything
        return f"<{type(error).__name__} without a printable message>"


def _code(error: BaseException) -> str | None:
    try:
        code = getattr(error, "code", None)
    except Exception:  # noqa: BLE001 - as above: it may be the user's own property
        return None
    return code if isinstance(code, str) and code else None


def _traceback(error: BaseException) -> str | None:
    try:
        return "".join(traceback.format_exception(error, limit=-_FRAMES))
    except Exception:  # noqa: BLE001 - better no traceback than no record of the failure
        return None


def _text(value: Any) -> str:
    """Make a text that every store can hold: lone surrogates and NUL are spelled out."""
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _head(text: str, most: int) -> str:
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - _CUT_BYTES].decode("utf-8", "ignore") + _CUT


def _tail(text: str, most: int) -> str:
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return _CUT + encoded[len(encoded) - most + _CUT_BYTES :].decode("utf-8", "ignore")
