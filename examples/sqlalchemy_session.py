"""A job and your own rows in one transaction of SQLAlchemy's, on PostgreSQL.

Run it: DATABASE_URL=postgresql://user:password@host/database python examples/sqlalchemy_session.py
"""

import asyncio
import os

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import dibs

URL = os.environ["DATABASE_URL"]
app = dibs.App(URL)
engine = create_async_engine(URL.replace("postgresql://", "postgresql+asyncpg://"))


async def order(number: int) -> None:
    """Take an order; if anything goes wrong, neither the order nor its job is there."""
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text("INSERT INTO example_order VALUES (:number, false)"), {"number": number})
        await app.enqueue("charge", {"order": number}, connection=session)
        if number == 2:
            raise ValueError("sold out")


async def charge() -> None:
    """Charge what was ordered: the payment and the job's end are one."""
    while claim := await app.claim("cashier", tasks=["charge"]):
        async with claim, AsyncSession(engine) as session, session.begin():
            paid = {"number": claim.params["order"]}
            await session.execute(text("UPDATE example_order SET paid = true WHERE number = :number"), paid)
            await claim.complete(connection=session)


async def main() -> None:
    await app.migrate()
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE example_order (number integer PRIMARY KEY, paid boolean)"))
    for number in (1, 2, 3):
        try:
            await order(number)
        except ValueError as error:
            print("order", number, "was rolled back:", error)
    await charge()
    async with engine.begin() as connection:
        rows = await connection.execute(text("SELECT number, paid FROM example_order ORDER BY number"))
        print([(row.number, row.paid) for row in rows])
        await connection.execute(text("DROP TABLE example_order"))
    print((await app.counts()).completed, "jobs completed")
    await engine.dispose()
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
