"""How a process of its own finds the function that it is to call: by its name. No code is ever sent to it.

It imports what its worker has imported: the modules where the app can be seen, and those of its tasks. A script that
was started is one of them if the app is there; it is run once more under the name ``__mp_main__``, as multiprocessing
does it, so that ``if __name__ == "__main__"`` keeps back what is the worker's alone.
"""

from __future__ import annotations

import runpy
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from dibs.domain.errors import WrongState
from dibs.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.app import App

MAIN, AS_MAIN = "__main__", "__mp_main__"


class Where(msgspec.Struct, frozen=True):
    """Where a function is: in which module, and under which name."""

    module: str
    name: str


class Script(msgspec.Struct, frozen=True):
    """What was started, as a file or by ``python -m``."""

    path: str | None = None
    module: str | None = None


class Imports(msgspec.Struct, frozen=True):
    """What there is to be imported, in order."""

    modules: list[str]
    script: Script | None = None
    argv: list[str] = []


# In the worker


def where_is(task: Task[..., Any]) -> Where:
    """Say where another process finds a task's function; a ``LookupError`` that says why, if it cannot."""
    return where_it_is(task.function)


def where_it_is(function: Callable[..., Any]) -> Where:
    """Say the same of any function."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name:
        raise LookupError("it has no name of its own")
    if "<locals>" in name:
        raise LookupError(f"it is defined inside of {name.partition('.<locals>')[0]}()")
    if module in {MAIN, AS_MAIN} and _script() is None:
        raise LookupError("it is not in a file that could be imported")
    where = Where(module, name)
    try:
        found = find(where)
    except (ImportError, LookupError):
        found = None
    if found is not function:
        raise LookupError(f"{name!r} of the module {module!r} is not it")
    return where


def imports_of(app: App) -> Imports:
    """List what a process has to import so that the app and its tasks are there as they are here."""
    homes = {getattr(task.function, "__module__", None) for task in app.tasks.values()}
    # In the order in which their import began: what depends on the order goes well there if it did here.
    seen = [name for name, module in list(sys.modules.items()) if name in homes or _shows(module, app)]
    script = _script() if MAIN in seen or AS_MAIN in seen else None
    modules = [name for name in seen if name != MAIN and getattr(sys.modules[name], "__spec__", None) is not None]
    return Imports(modules, script, sys.argv)


def _shows(module: object, app: App) -> bool:
    return any(value is app for value in list(getattr(module, "__dict__", {}).values()))


def _script() -> Script | None:
    """Say what was started, if it may be run again to import it: multiprocessing's own rule."""
    main = sys.modules[MAIN]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        # A package's __main__ has no guard, as a rule.
        return None if name == MAIN or name.endswith(f".{MAIN}") else Script(module=name)
    path = getattr(main, "__file__", None)
    return Script(path=str(Path(path).absolute())) if path is not None and Path(path).is_file() else None


# In the process of a handler

_importing = False


@contextmanager
def _nothing_else() -> Iterator[None]:
    global _importing  # noqa: PLW0603 - there is one such time in the life of a process
    _importing = True
    try:
        yield
    finally:
        _importing = False


def importing() -> bool:
    """Say whether this process is only about to know what its worker knows: what is made now is not for use here."""
    return _importing


def refuse_while_importing() -> None:
    """Refuse to run a worker as its script is only imported: it would start processes that start processes."""
    if _importing:
        raise WrongState(
            "a process for handlers imports this script, which runs a worker as it is imported",
            hint='Put that behind `if __name__ == "__main__":`.',
        )


def import_all(imports: Imports) -> None:
    """Import what the worker has imported."""
    sys.argv[:] = imports.argv
    with _nothing_else():
        if imports.script is not None:
            _run_again(imports.script)
        for name in imports.modules:
            import_module(name)


def _run_again(script: Script) -> None:
    module = ModuleType(AS_MAIN)
    if script.module is not None:
        names = runpy.run_module(script.module, run_name=AS_MAIN, alter_sys=True)
    else:
        names = runpy.run_path(str(script.path), run_name=AS_MAIN)
    module.__dict__.update(names)
    sys.modules[MAIN] = sys.modules[AS_MAIN] = module


def find(where: Where) -> Callable[..., Any]:
    """Find a function, or that of the task which has its name."""
    found: Any = import_module(where.module)
    for part in where.name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise LookupError(
                f"the module {where.module!r} has no {where.name!r} in a process for handlers: "
                "define it at the top of the module, and not only if __name__ is '__main__'"
            )
    return found.function if isinstance(found, Task) else found
