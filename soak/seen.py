"""What the processes have left in their files so far: who was told what, and which handlers ran to their end."""

from collections import Counter
from pathlib import Path


class Seen:
    """Reads on where it has read to; a line that is on its way is left for the next time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: Counter[Path] = Counter()
        self.acknowledged: dict[str, float] = {}  # job -> when its producer was told
        self.ended: dict[str, float] = {}  # job -> when a handler first ran to its end for it
        self.runs: Counter[tuple[str, int]] = Counter()  # by job and fence
        self.refused: list[tuple[float, str]] = []  # when, and what a producer was told
        self.last: dict[str, float] = {}  # process -> when it was last heard of

    def look(self) -> None:
        for file in self._folder.glob("*.produced"):
            for line in self._new(file):
                at, _, told, *more = line.split(" ", 4)
                if told == "!":
                    self.refused.append((float(at), " ".join(more)))
                else:
                    self.acknowledged[told] = self.last[file.stem] = float(at)
        for line in self._new(self._folder / "runs"):
            moment, worker, job, fence = line.split()
            self.last[worker] = float(moment)
            self.ended.setdefault(job, float(moment))
            self.runs[job, int(fence)] += 1

    def _new(self, file: Path) -> list[str]:
        if not file.exists():
            return []
        with file.open("rb") as content:
            content.seek(self._read[file])
            whole, newline, _ = content.read().rpartition(b"\n")
        self._read[file] += len(whole) + len(newline)
        return whole.decode().splitlines()
