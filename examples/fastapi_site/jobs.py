"""The queue, its tasks, and the models that they take: what the site and its workers share.

A worker, from the folder above: dibs worker fastapi_site.jobs:app
"""

from pydantic import BaseModel, Field

import dibs

app = dibs.App()  # the store that DIBS_STORE names, else sqlite:///dibs.db


class Line(BaseModel):
    article: str = Field(min_length=1)
    pieces: int = Field(gt=0)
    price: int = Field(ge=0, description="in cents")


class Order(BaseModel):
    customer: str
    lines: list[Line] = Field(min_length=1)


class Invoice(BaseModel):
    customer: str
    total: int


@app.task(max_attempts=5, retry=dibs.Backoff(base=2, cap=600), timeout=60)
async def bill(order: Order) -> Invoice:
    """The argument arrives as the model that it is, and what is returned is the job's result."""
    await dibs.current().progress(0.5, "adding up")
    return Invoice(customer=order.customer, total=sum(line.pieces * line.price for line in order.lines))
