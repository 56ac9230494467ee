"""Finding an app by name: ``package.module:app``."""

from __future__ import annotations

import importlib
import sys
import traceback
from itertools import dropwhile
from pathlib import Path
from urllib.parse import unquote

from dibs.app import App
from dibs.domain.errors import InvalidRequest, NotFound, Problem

_MISSING = "Name the store with --store or DIBS_STORE; `dibs migrate` makes a new one."


def existing(url: str | None, api_key: str | None = None, hint: str = _MISSING) -> App:
    """Make an app of a store that is there already: a mistyped file is not made, and then found to be empty."""
    app = App(url, api_key=api_key)
    path = place_of(app)
    if path is not None and not path.exists():
        raise NotFound(f"there is no file {path}", hint=hint)
    return app


def place_of(app: App) -> Path | None:
    """Say which file a store is in, if it is in one."""
    if not app.url.startswith("sqlite:///"):
        return None
    return Path(unquote(app.url.removeprefix("sqlite:///"))).absolute()


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
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{module}.".startswith(f"{missing}."):
            _show(error)  # it was found, and something in it was wrong
            told = f"importing {module!r} failed: {type(error).__name__}: {error}"
            raise InvalidRequest([Problem(field, told)]) from None
        hint = "Modules are looked for from the current folder on."
        if "." in module:
            hint += f" Did you mean {':'.join(module.removesuffix('.py').rsplit('.', 1))}?"
        raise InvalidRequest([Problem(field, f"there is no module {missing!r}. {hint}")]) from None


def _show(error: Exception) -> None:
    """Show where it was raised, from the first line on that is the user's own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = dropwhile(lambda frame: frame.filename == __file__ or "importlib" in frame.filename, frames)
    lines = [*traceback.format_list(own), *traceback.format_exception_only(error)]
    print("Traceback (most recent call last):\n" + "".join(lines), end="", file=sys.stderr)
