"""The statements: one to a file in ``sql/``, each opened by a comment that names its race, its index and its order."""

from __future__ import annotations

from importlib.resources import files


def statement(name: str) -> str:
    """Read one, without its comments: they would be sent, and parsed, each time."""
    return without_comments(files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8"))


def without_comments(text: str) -> str:
    """Leave out the lines that are for people."""
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("--"))
