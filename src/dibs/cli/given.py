"""JSON that was given on the command line or in a file."""

from __future__ import annotations

from typing import Any

from dibs.domain.errors import Invalid, InvalidRequest, Problem
from dibs.server.reading import decode


def json_of(field: str, text: str | bytes) -> Any:
    """Read JSON; what is wrong with it is told under the name of the field."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    try:
        return decode(raw)
    except Invalid as error:
        said = "; ".join(problem.message if problem.field == "body" else str(problem) for problem in error.problems)
        bare = "not JSON" in said and bytes(raw[:1]) not in {b"{", b"[", b'"'}
        hint = """. A text needs quotes of its own: '"text"'""" if bare else ""
        raise InvalidRequest([Problem(field, f"{said}{hint}")]) from None
