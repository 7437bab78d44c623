"""The demo application of `windlass up`: one small job of each kind."""

import asyncio
import math
import time

from windlass import JobContext, Windlass, backoff

app = Windlass(name="windlass.demo")


@app.job
async def greet(ctx: JobContext, name: str = "world") -> str:
    """Say hello: a coroutine, on the worker's event loop."""
    ctx.log("greeting", name=name)
    return f"Hello, {name}!"


@app.job(timeout="10m")
def count(ctx: JobContext, to: int = 5, pause: float = 0.5) -> int:
    """Count, and tell how far it is: a plain function, in a thread. Cancel it, and it stops."""
    for number in range(1, to + 1):
        if ctx.canceled:
            break
        ctx.log(f"counted {number}")
        ctx.progress(number / to, f"{number} of {to}")
        time.sleep(pause)
    return to


@app.job(max_attempts=5, backoff=backoff.fixed("1s"))
async def flaky(ctx: JobContext, failures: int = 2) -> str:
    """Fail at first, and succeed in the end."""
    await asyncio.sleep(0.1)
    if ctx.attempt <= failures:
        ctx.log.warning("this try fails", attempt=ctx.attempt)
        raise ConnectionError(f"nobody answered try {ctx.attempt}")
    return f"succeeded on try {ctx.attempt}"


@app.job(process=True)
def primes(below: int = 200_000) -> int:
    """Count the primes below a number: work for the processor, in a process of its own."""
    return sum(all(number % divisor for divisor in range(2, math.isqrt(number) + 1)) for number in range(2, below))


disk_free = app.command(
    "disk-free",
    argv=["df", "-h", "--", "{payload.folder}"],
    schema={
        "type": "object",
        "properties": {"folder": {"type": "string"}},
        "additionalProperties": False,
    },
    description="Tell how full a folder's disk is, or each disk: an allow-listed command, whose output becomes the job's log.",
)
