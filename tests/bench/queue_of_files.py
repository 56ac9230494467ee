"""A contender that is a folder of files, and that can be told to lose a job, to run one twice, or to keep one."""

import os
from pathlib import Path

from bench.peers.program import Job, Seen, main

FAULT = os.environ.get("FAULT", "")


class FileQueue:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def about(self) -> str:
        return "files"

    def put(self, job: Job) -> None:
        (self._folder / f"{job['number']}.job").touch()

    def put_many(self, jobs: list[Job]) -> None:
        for job in jobs:
            self.put(job)

    def left(self) -> int:
        return len(list(self._folder.glob("*.job")))

    def work(self, seen: Seen) -> None:
        for file in self._folder.glob("*.job"):
            number = int(file.stem)
            for _ in range({"lose": 0, "double": 2}.get(FAULT, 1) if number == 3 else 1):
                seen.handle(number)
            if not (FAULT == "keep" and number == 3):
                file.unlink()

    def follow(self, seen: Seen) -> None:
        while not seen.all.is_set():
            self.work(seen)


if __name__ == "__main__":
    main(FileQueue)
