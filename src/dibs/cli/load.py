"""Finding an app by name: ``package.module:app``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from dibs.app import App
from dibs.domain.errors import InvalidRequest, Problem


def load_app(target: str, imports: list[str]) -> App:
    """Import the app that is named, and the modules that define more of its tasks."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, name = target.partition(":")
    found = getattr(_import(module, "app"), name or "app", None)
    if not isinstance(found, App):
        what = "has no such name" if found is None else f"has a {type(found).__name__} there"
        raise InvalidRequest([Problem("app", f"{target!r} is no dibs.App: the module {module!r} {what}")])
    for each in imports:
        _import(each, "import")
    return found


def _import(module: str, field: str) -> object:
    if not module.replace(".", "").replace("_", "a").isalnum():
        raise InvalidRequest([Problem(field, f"{module!r} is no module; name one as in package.module:app")])
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # it was found, and something that it imports was not: its own traceback says more
        hint = "Modules are looked for from the current folder on."
        raise InvalidRequest([Problem(field, f"there is no module {error.name!r}. {hint}")]) from None
