"""What pyright must accept and refuse: checked by `make types`, where an ignore that is not needed is an error."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=error, reportUnusedFunction=false
from typing import assert_type
from uuid import UUID

import asyncpg

from windlass import JobContext, Windlass
from windlass.client import JobHandle

app = Windlass(name="typing")


@app.job(queue="mail", max_attempts=5)
async def send_welcome(ctx: JobContext, user_id: int, template: str = "hello") -> dict[str, int]:
    ctx.log("sent", user=user_id)
    return {template: user_id}


@app.job
def plain(path: str) -> None: ...


@app.job
async def bare() -> UUID:
    return UUID(int=1)


async def uses(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    handle = await send_welcome.enqueue(user_id=1)
    assert_type(handle, JobHandle[dict[str, int]])
    assert_type(await handle.result(timeout=3), dict[str, int])
    await send_welcome.options(priority=1, delay="5m").enqueue(1, template="x")
    await send_welcome.enqueue(user_id="x")  # pyright: ignore[reportArgumentType]
    await send_welcome.enqueue()  # pyright: ignore[reportCallIssue]
    await send_welcome.enqueue(1, unknown=2)  # pyright: ignore[reportCallIssue]
    send_welcome.request(user_id="x")  # pyright: ignore[reportArgumentType]
    send_welcome.enqueue_on(connection, user_id="x")  # pyright: ignore[reportArgumentType]
    await send_welcome.enqueue_on(connection, user_id=1)
    await plain.enqueue("/")
    await plain.enqueue(path=3)  # pyright: ignore[reportArgumentType]
    assert_type(await (await bare.enqueue()).result(), UUID)
