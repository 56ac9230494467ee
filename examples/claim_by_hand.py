"""Claim jobs by hand: any code can be a worker. Run it: python examples/claim_by_hand.py"""

import asyncio

import dibs

app = dibs.App("memory://")  # or "sqlite:///jobs.db", which other processes can share


async def main() -> None:
    for name in ("cat.png", "dog.png", "broken.png"):
        await app.enqueue("resize", {"path": name}, max_attempts=1)

    while claim := await app.claim("worker-1", tasks=["resize"]):
        try:
            async with claim:  # extends itself while inside, settles on leaving
                resized = resize(claim.params["path"], fence=claim.fence)
                await claim.complete({"resized": resized})
        except ValueError as error:
            print(f"{claim.params['path']}: {error}")

    counts = await app.counts()
    print(f"{counts.completed} completed, {counts.failed} failed")
    assert (counts.completed, counts.failed) == (2, 1)
    await app.close()


def resize(path: str, fence: int) -> str:
    """Do the work. Whoever writes elsewhere sends the fence along, and refuses writes with a lower one there."""
    if path.startswith("broken"):
        raise ValueError("not an image")
    return f"small-{path} (fence {fence})"


if __name__ == "__main__":
    asyncio.run(main())
