"""Tasks: functions whose calls are enqueued, typed by their own signature. Run it: python examples/tasks.py"""

import asyncio

import dibs

app = dibs.App("memory://")
mails = dibs.Tasks()  # tasks of another module need no app until it includes them


@mails.task(max_attempts=5, queue="mail", retry=dibs.Backoff(base=2, cap=600))
async def send_email(to: str, subject: str = "hello") -> None:
    claim = dibs.current()  # the claim that this call runs under
    print(f"to {to}: {subject} (attempt {claim.attempt}, fence {claim.fence})")


app.include(mails)


async def main() -> None:
    await send_email.enqueue("ada@example.org", subject="hi")
    later = await send_email.options(delay=60, idempotency_key="welcome-42").enqueue("bob@example.org")
    again = await send_email.options(delay=60, idempotency_key="welcome-42").enqueue("bob@example.org")
    assert again.id == later.id
    assert again.was_duplicate

    claim = await app.claim(queues=["mail"])
    assert claim is not None
    async with claim:
        await send_email(**claim.params)

    counts = await app.counts("mail")
    print(f"{counts.completed} completed, {counts.scheduled} scheduled")
    assert (counts.completed, counts.scheduled) == (1, 1)
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
