"""Types that are pydantic's: it makes, checks, writes and describes them. It is known by what it leaves on a type.

Pure, and pydantic is never imported here: where there is such a type, it has been.
"""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Sequence
from typing import Any

import msgspec

from dibs.domain.errors import InvalidJob, Problem

_PROTOCOL = "__get_pydantic_core_schema__"  # a model, or a type of pydantic's own, such as a URL
_DATACLASS = "__pydantic_validator__"
_STARS = b'"**********"'  # what pydantic writes instead of a secret
_HOMES = frozenset({"annotated_types", "pydantic", "pydantic_core"})


class Model:
    """Does for one type, whatever it is made of, what pydantic does for the fields of a model."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def make(self, field: str, value: Any) -> Any:
        """Make a value of what JSON has; an ``InvalidJob`` names each part that does not fit."""
        try:
            # Of the text, as a model may be strict: then a time is taken as a text there, and nowhere else.
            return self._adapter.validate_json(msgspec.json.encode(value))
        except ValueError as error:
            raise InvalidJob(problems(field, error)) from None

    def check_sent(self, field: str, sent: Any) -> None:
        """Refuse a secret: it would arrive as a row of stars."""
        if _STARS in msgspec.json.encode(sent) and "'writeOnly': True" in repr(self.schema("{model}")):
            raise InvalidJob([Problem(field, "has a secret, which is written as stars; send what it can be found by")])

    def schema(self, ref_template: str) -> dict[str, Any]:
        """Describe what is taken, with names for its parts."""
        schema: dict[str, Any] = self._adapter.json_schema(ref_template=ref_template)
        return schema


def model_of(kind: Any) -> Model | None:
    """Give what makes values of a type, if there is anything of pydantic's in it, and pydantic knows all of it."""
    adapter = getattr(sys.modules.get("pydantic"), "TypeAdapter", None)
    if adapter is None or not _is_its_own(kind):
        return None
    try:
        return Model(adapter(kind))
    except Exception:  # noqa: BLE001 - a type of another library's is in it, or one that is not there yet
        return None


def _is_its_own(kind: Any) -> bool:
    """Say whether a type, or one that it is made of, is a model, a type or a constraint of pydantic's."""
    if isinstance(kind, type) and (hasattr(kind, _PROTOCOL) or hasattr(kind, _DATACLASS)):
        return True
    told = getattr(kind, "__metadata__", ())  # of Annotated
    if any(type(each).__module__.partition(".")[0] in _HOMES or hasattr(each, _PROTOCOL) for each in told):
        return True
    return any(_is_its_own(each) for each in typing.get_args(kind) if not isinstance(each, str))


def write(value: Any) -> Any:
    """Write a model as JSON has it, by the names that it is read by; what is no model is no JSON."""
    return _dump(value)(mode="json", by_alias=True)


def write_to_read(value: Any) -> Any:
    """Write a model so that it can be made of that again: without what it computes. Whether it can, is seen then."""
    return _dump(value)(mode="json", by_alias=True, round_trip=True, warnings=False)


def _dump(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")  # as msgspec says it
    return dump


def problems(field: str, error: ValueError) -> list[Problem]:
    """Tell pydantic's errors by their fields, and without what was sent."""
    told: Sequence[Any] = error.errors() if hasattr(error, "errors") else [{"loc": (), "msg": str(error)}]
    return [Problem(field + _path(each["loc"]), _in_words(each["msg"])) for each in told]


def _path(places: Sequence[Any]) -> str:
    return "".join(f"[{place}]" if isinstance(place, int) else f".{place}" for place in places)


def _in_words(message: str) -> str:
    message = re.sub(r"^(Value|Assertion) error, ", "", message)
    return message[:1].lower() + message[1:]
