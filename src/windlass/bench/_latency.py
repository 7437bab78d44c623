"""How long an idle worker takes to begin: from the call of enqueue to the first line of the handler."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from statistics import median, quantiles

from windlass.bench._ceiling import claim_one
from windlass.bench._ground import Ground
from windlass.bench._result import Result, in_turns
from windlass.bench._workers import workers_on
from windlass.client import JobHandle
from windlass.db import Listener, statement

_TELL = statement(__file__, "tell")
_CHANNEL = "windlass_bench"
_MOST, _LEAST, _WARM = 1000, 50, 20
_PAUSES = (0.005, 0.020)
_PATIENCE = 30.0


async def latency(ground: Ground) -> Result:
    """Many single jobs with pauses between; their results, which are times, are read when all have run. In turns with
    bare SQL in the same rhythm, for an idle machine takes its time to wake up, and each takes another.
    """
    turns = ground.plan.rounds
    count = max(min(max(ground.plan.jobs // 20, _LEAST), _MOST) // turns, 1)
    async with workers_on(ground.database, 1), _bare(ground) as bare:
        await _sample(ground, _WARM)
        said = await in_turns(turns, lambda: _sample(ground, count), lambda: _repeat(bare, count))
    waited, bare_waited = (list(chain.from_iterable(rounds)) for rounds in said)
    return Result("latency", {
        "p50_ms": median(waited), "p99_ms": quantiles(waited, n=100)[98], "max_ms": max(waited),
        "ratio": median(bare_waited) / median(waited), "bare_p50_ms": median(bare_waited),
        "bare_p99_ms": quantiles(bare_waited, n=100)[98], "samples": len(waited),
    })  # fmt: skip


async def _sample(ground: Ground, count: int) -> Sequence[float]:
    enqueued = [await _enqueue(ground) for _ in range(count)]
    return [(await handle.result(_PATIENCE) - called) / 1e6 for called, handle in enqueued]


async def _enqueue(ground: Ground) -> tuple[int, JobHandle[int]]:
    await _pause()
    called = time.monotonic_ns()
    return called, await ground.jobs.stamp.enqueue()


async def _pause() -> None:
    await asyncio.sleep(random.uniform(*_PAUSES))  # noqa: S311


async def _repeat(body: Callable[[], Awaitable[float]], count: int) -> Sequence[float]:
    return [await body() for _ in range(count)]


@asynccontextmanager
async def _bare(ground: Ground) -> AsyncGenerator[Callable[[], Awaitable[float]]]:
    """What no queue on this database can go below: a job is stored and told of, who listens hears it, and claims it."""
    heard = asyncio.Event()
    listener = Listener(ground.database.url, _CHANNEL, lambda _: heard.set())

    async def once() -> float:
        await _pause()
        heard.clear()
        called = time.monotonic_ns()
        told = asyncio.ensure_future(ground.database.rows(_TELL, ground.ceiling_queue, ground.tenant, ground.noop, _CHANNEL))
        await asyncio.wait_for(heard.wait(), _PATIENCE)
        await claim_one(ground)
        taken = (time.monotonic_ns() - called) / 1e6
        await told
        return taken

    await listener.start()
    try:
        yield once
    finally:
        await listener.stop()
