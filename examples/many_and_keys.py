"""Many jobs in one call, and the ways to say that a job is the same one. Run it: python examples/many_and_keys.py"""

import asyncio

import dibs

app = dibs.App("memory://")


async def main() -> None:
    jobs = [dibs.NewJob("import", {"row": row}, priority="low", tags=["nightly"]) for row in range(500)]
    print(len(await app.enqueue_many(jobs)), "enqueued, all of them or none")

    # One job for this key for as long as it is kept: a request that is sent twice makes one job.
    first = await app.enqueue("charge", {"order": 7}, idempotency_key="order-7")
    second = await app.enqueue("charge", {"order": 7}, idempotency_key="order-7")
    assert second.id == first.id
    assert second.was_duplicate
    try:
        await app.enqueue("charge", {"order": 8}, idempotency_key="order-7")
    except dibs.IdempotencyMismatch as error:
        print("refused:", error)

    # One unfinished job: while a rebuild waits or runs, asking for another one gets the same.
    assert (await app.enqueue("rebuild", unique=True)).id == (await app.enqueue("rebuild", unique=True)).id

    # One run: whoever comes later gets the first one's result.
    assert await app.once("exchange-rate", lambda: 1.08) == 1.08
    assert await app.once("exchange-rate", lambda: 1.11) == 1.08

    nightly = [job.id async for job in app.find(tag="nightly", limit=100)]  # page by page, newest first
    print(len(nightly), "found")
    assert len(nightly) == 500
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
