"""How long an idle worker takes to begin: from the call of enqueue to the first line of the handler."""

import asyncio
import random
import time
from collections.abc import Sequence
from statistics import median, quantiles

from windlass.bench._ground import Ground
from windlass.bench._result import Result
from windlass.bench._workers import workers_on
from windlass.client import JobHandle

_MOST, _LEAST, _WARM = 1000, 50, 20
_PAUSES = (0.005, 0.020)
_PATIENCE = 30.0


async def latency(ground: Ground) -> Result:
    """Many single jobs with pauses between; their results, which are times, are read when all have run."""
    async with workers_on(ground.database, 1):
        await _sample(ground, _WARM)
        waited = await _sample(ground, min(max(ground.plan.jobs // 20, _LEAST), _MOST))
    return Result("latency", {
        "p50_ms": median(waited), "p99_ms": quantiles(waited, n=100)[98], "max_ms": max(waited),
        "ratio": None, "samples": len(waited),
    })  # fmt: skip


async def _sample(ground: Ground, count: int) -> Sequence[float]:
    enqueued = [await _enqueue(ground) for _ in range(count)]
    return [(await handle.result(_PATIENCE) - called) / 1e6 for called, handle in enqueued]


async def _enqueue(ground: Ground) -> tuple[int, JobHandle[int]]:
    await asyncio.sleep(random.uniform(*_PAUSES))  # noqa: S311
    called = time.monotonic_ns()
    return called, await ground.jobs.stamp.enqueue()
