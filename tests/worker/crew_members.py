"""Members of a crew that are no workers: each leaves its number, and ends in its own way."""

import os
import time
from pathlib import Path


def tell(order: str, place: int) -> int:
    """Leave a line; say how many there are."""
    with Path(order).open("a") as file:
        file.write(f"{place} {os.getpid()}\n")
    return len(Path(order).read_text().splitlines())


def dies(order: str, file: int, place: int) -> int:
    """Die twice, and then have nothing left to do."""
    return 3 if tell(order, place) < 3 else 0


def spent(order: str, file: int, place: int) -> int:
    """Be spent twice, and then have nothing left to do."""
    return 99 if tell(order, place) < 3 else 0


def deaf(order: str, file: int, place: int) -> int:
    """Hear nothing."""
    tell(order, place)
    while True:
        time.sleep(1)
