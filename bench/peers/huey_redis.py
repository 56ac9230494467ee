"""Huey on Redis: four threads, each waiting in a blocking pop. As on SQLite, a job is gone when it is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huey import RedisHuey  # type: ignore[import-not-found]

from bench.peers.huey import HueyQueue
from bench.peers.program import main, url_in, versions


class HueyOnRedis(HueyQueue):
    threads = 4

    def opened(self, folder: Path) -> Any:
        return RedisHuey(url=url_in(folder), results=False)

    def about(self) -> str:
        return f"{versions('huey', 'redis', 'hiredis')}: RedisHuey, {self.threads} threads, no results"


if __name__ == "__main__":
    main(HueyOnRedis)
