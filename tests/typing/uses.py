"""What pyright must accept and refuse: checked by `make types`, where an ignore that is not needed is an error."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=error, reportUnusedFunction=false
from collections.abc import Coroutine
from typing import Any, assert_type
from uuid import UUID

import asyncpg

from windlass import JobContext, Windlass
from windlass.client import Job, JobHandle
from windlass.model import JobView

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


async def by_name() -> None:
    assert_type(await app.jobs.trigger("plain", {"path": "/"}, priority=1, delay="5m"), JobHandle[Any])
    await app.jobs.trigger("plain", {"path": "/"}, prio=1)  # pyright: ignore[reportCallIssue]
    await app.jobs.trigger("plain", {"path": "/"}, priority="x")  # pyright: ignore[reportArgumentType]
    assert_type(await app.jobs.list_runs(status="queued", limit=3), list[JobView])
    await app.jobs.list_runs(state="queued")  # pyright: ignore[reportCallIssue]
    app.command("tool", argv=["true"], queue="mail", timeout="5m")
    app.command("tool", argv=["true"], que="mail")  # pyright: ignore[reportCallIssue]
    app.command("tool", argv=["true"], timeout=[])  # pyright: ignore[reportArgumentType]


async def as_functions(ctx: JobContext) -> None:
    _ = assert_type(send_welcome(ctx, 1), Coroutine[Any, Any, dict[str, int]])
    await send_welcome(1)  # pyright: ignore[reportCallIssue]
    assert_type(plain("/"), None)
    plain(3)  # pyright: ignore[reportArgumentType]
    assert_type(await bare(), UUID)


def takes_any(job: Job[..., Any]) -> str:
    return job.key


takes_any(send_welcome)
takes_any(plain)
