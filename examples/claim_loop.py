"""A loop that takes jobs as they come: whatever one of them does, it goes on. Run it: python examples/claim_loop.py"""

import asyncio
import logging

import dibs

app = dibs.App("memory://")  # with "sqlite:///jobs.db" there may be many such loops, each in a process of its own


async def loop() -> None:
    async for claim in app.claims("scales-1", tasks=["weigh"]):  # for ever, waiting while there is none
        async with claim:  # extends itself while inside, settles on leaving; what is raised is logged
            if claim.params["kilos"] < 0:
                raise dibs.Fail("nothing weighs that")  # for good, whatever attempts are left
            await claim.complete({"grams": claim.params["kilos"] * 1000})


async def main() -> None:
    logging.getLogger("dibs").setLevel(logging.CRITICAL)  # failures are told below
    running = asyncio.create_task(loop())
    jobs = await app.enqueue_many([dibs.NewJob("weigh", {"kilos": kilos}) for kilos in (1, -1, 2)])
    for job in jobs:
        ended = await app.wait(job.id, timeout=30)
        print(ended.params, ended.status, ended.result if ended.error is None else ended.error.message)

    running.cancel()  # a job that it held would be given back
    await asyncio.gather(running, return_exceptions=True)
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
