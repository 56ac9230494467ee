"""What an operator does: look, pause, cancel, redrive, purge, verify. Run it: python examples/operate.py"""

import asyncio

import dibs

app = dibs.App("memory://", max_attempts=1)


async def main() -> None:
    jobs = await app.enqueue_many([dibs.NewJob("sync", {"shop": shop}, queue="shops") for shop in range(4)])

    await app.pause("shops", by="ada")
    assert await app.claim(queues=["shops"]) is None
    print("paused:", (await app.explain(jobs[0].id)).message)
    await app.resume("shops", by="ada")

    await app.cancel(jobs[3].id, by="ada")
    for claim in await app.claim_many(limit=10, queues=["shops"]):
        await claim.fail("the shop is closed")

    dead = await app.find(status="failed", queue="shops")
    print(len(dead.items), "in the dead letter:", dead.items[0].error)
    where = dibs.Filter(status="failed", queue="shops")
    assert (await app.redrive(where=where, dry_run=True)).matched == 3
    assert (await app.redrive(where=where, by="ada")).changed == 3

    for claim in await app.claim_many(limit=10, queues=["shops"]):
        async with claim:
            await claim.complete()
    for event in await app.log(jobs[0].id):
        print(f"{event.seq} {event.event:10} {event.from_ or '-'} -> {event.to} {event.actor or event.worker_id or ''}")

    assert (await app.purge(where=dibs.Filter(status="completed"))).changed == 3
    report = await app.verify()
    print(report)
    assert report.ok
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
