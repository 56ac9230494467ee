"""Mistakes, and how they are made: a line of dibs is replaced by a wrong one, for as long as a block lasts.

What is replaced must be there, exactly once. So a mistake whose line was changed says so, and does not pass for caught.
"""

from __future__ import annotations
import __future__

import hashlib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NamedTuple

import pytest

from dibs.stores.redis.scripts import Script


class Edit(NamedTuple):
    """One wrong line: where it goes, what stood there, and what stands there now."""

    place: str  # dibs.module:function, dibs.module:Class.method, or dibs.module:STATEMENT
    right: str
    wrong: str


class Mistake(NamedTuple):
    """What someone might do wrong; of the kinds in the list of failures that users of other queues reported."""

    name: str
    promise: int | str  # its number in the contract; or where what has none is written there
    kind: str  # what users would report
    where: str  # domain, memory, sqlite, broker, keeper, worker or server; or the store that is a server
    edits: tuple[Edit, ...]
    caught_by: str  # the quickest catcher that is known
    tests: str = ""  # of a suite, those that are enough: see -k of pytest

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Make the mistake, until the patch is undone."""
        for place in dict.fromkeys(edit.place for edit in self.edits):
            _apply(place, [edit for edit in self.edits if edit.place == place], patch)


@contextmanager
def planted(mistake: Mistake) -> Iterator[None]:
    """Make a mistake for as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        mistake.plant(patch)
        yield


def _apply(place: str, edits: list[Edit], patch: pytest.MonkeyPatch) -> None:
    module_name, _, path = place.partition(":")
    module = importlib.import_module(module_name)
    *outer, name = path.split(".")
    owner: Any = module
    for part in outer:
        owner = getattr(owner, part)
    before = inspect.getattr_static(owner, name)
    after = _changed(edits, before, name)
    patch.setattr(owner, name, after)
    if owner is module:  # others may have imported it by name
        for other in _modules():
            for alias in [alias for alias, value in vars(other).items() if value is before]:
                patch.setattr(other, alias, after)


def _changed(edits: list[Edit], before: Any, name: str) -> Any:
    if isinstance(before, str):
        return _replace(edits, before)
    if isinstance(before, Script):
        text = _replace(edits, before.text.decode()).encode()
        return before._replace(text=text, sha=hashlib.sha1(text, usedforsecurity=False).hexdigest())
    return _rewrite(edits, before, name)


def _rewrite(edits: list[Edit], function: FunctionType, name: str) -> Any:
    source = _replace(edits, textwrap.dedent(inspect.getsource(function)))
    flags = __future__.annotations.compiler_flag
    made: dict[str, Any] = {}
    code = compile(source, f"<{edits[0].place} with a mistake>", "exec", flags, dont_inherit=True)
    exec(code, function.__globals__, made)
    return made[name]


def _replace(edits: list[Edit], text: str) -> str:
    for place, right, wrong in edits:
        if text.count(right) != 1:
            raise LookupError(f"{place} has {right!r} {text.count(right)} times: the mistake must be renewed")
        text = text.replace(right, wrong)
    return text


def _modules() -> list[Any]:
    return [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "dibs"]
