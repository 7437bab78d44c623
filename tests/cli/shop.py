"""The application of these tests."""

import asyncio
import gc
import logging
import time

from windlass import Fail, JobContext, Windlass

app = Windlass()


@app.job
async def greet(ctx: JobContext, name: str = "world") -> str:
    ctx.log("greeting", name=name)
    return f"Hello, {name}!"


@app.job(max_attempts=1)
async def fail(reason: str = "no luck") -> Fail:
    return Fail(reason)


@app.job
async def nap(ctx: JobContext, seconds: float = 1) -> str:
    ctx.log("falling asleep")
    await asyncio.sleep(seconds)
    ctx.log("\x1b[31mawake")
    return "slept"


@app.job
def stuck(seconds: float = 60) -> None:
    time.sleep(seconds)


@app.job
async def blocked(ctx: JobContext, seconds: float = 60) -> None:
    time.sleep(seconds)


@app.job
async def careless() -> None:
    async def fail() -> None:
        raise RuntimeError("nobody looked")

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    del task
    gc.collect()
    logging.getLogger("library").info("a library's chatter")
    logging.getLogger("library").warning("a library's %s", "warning")
