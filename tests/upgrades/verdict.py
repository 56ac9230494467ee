"""The verdict on a store that has been upgraded, by the version that it was upgraded to: only that may read it.

python -m tests.upgrades.verdict URL          waits until every job has ended
python -m tests.upgrades.verdict URL FOLDER   judges, once no one uses it any more
"""

import asyncio
import sys
from pathlib import Path

import dibs
from soak.check import judge
from soak.seen import Seen


async def rest(url: str) -> None:
    async with dibs.App(url) as app:
        while (await app.counts()).unfinished:  # noqa: ASYNC110 - the store rings no bell for that
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        asyncio.run(rest(sys.argv[1]))
        sys.exit()
    seen = Seen(Path(sys.argv[2]))
    seen.look()
    verdict = asyncio.run(judge(sys.argv[1], Path(sys.argv[2]), seen))
    print(f"{verdict.jobs} jobs, {verdict.operations} operations", *verdict.problems, sep="\n")
    sys.exit(1 if verdict.problems or not verdict.jobs else 0)
