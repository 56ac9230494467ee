"""The statements: one to a file in ``sql/``, each opened by a comment that names its race, its index and its order."""

from __future__ import annotations

from importlib.resources import files


def statement(name: str) -> str:
    """Read one, without its comments: drivers compare, and send, their every character."""
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("--"))
