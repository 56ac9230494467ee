"""A batch: many jobs as one, followed to its end, and one more job when all of them have ended."""

import asyncio

import dibs

app = dibs.App("memory://")


@app.task
async def resize(path: str) -> str:
    return f"small/{path}"


@app.task
async def publish(batch_id: str) -> None:
    info = await app.batch(id=batch_id).progress()
    print(f"{info.completed} of {info.total} were resized: now they can be seen")


async def main() -> None:
    async with app:
        async with app.batch(on_end=publish) as batch:
            await batch.add(resize.job(f"{number}.png") for number in range(5))
            await resize.options(batch=batch.id, priority=9).enqueue("cover.png")
        print(f"{(await batch.progress()).total} jobs")
        await dibs.Worker(app, concurrency=3).run(until_idle=True)
        info = await batch.wait()
        print(f"{info.progress:.0%} done")


if __name__ == "__main__":
    asyncio.run(main())
