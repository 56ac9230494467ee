"""The figures of the last runs, kept beside the page that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "figures.json"


def record(kind: str, figures: dict[str, Any]) -> None:
    """Keep the figures of one kind of run; then make the page: tools/guarantees.py."""
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    known[kind] = figures
    FIGURES.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
