"""How much memory a worker process has with a thousand jobs in flight."""

import asyncio

from windlass.bench._ground import Ground
from windlass.bench._result import Result
from windlass.bench._workers import workers_on
from windlass.db import statement

_IN_FLIGHT = statement(__file__, "in_flight")
_FLIGHT, _STAY_SECONDS, _SETTLE_DOWN = 1000, 600.0, 0.5
_PATIENCE = 30.0


async def worker_rss_mb(ground: Ground) -> Result:
    """Its resident memory once all of them run; `idle_mb` is before the first."""
    async with workers_on(ground.database, 1, concurrency=_FLIGHT) as workers:
        idle = workers.resident_bytes()
        await ground.jobs.app.enqueue_many([ground.jobs.hold.request(_STAY_SECONDS) for _ in range(_FLIGHT)])
        async with asyncio.timeout(_PATIENCE):
            await _until_in_flight(ground, _FLIGHT)
        await asyncio.sleep(_SETTLE_DOWN)
        full = workers.resident_bytes()
    return Result("worker_rss_mb", {"mb": _mb(full), "idle_mb": _mb(idle), "ratio": None, "in_flight": _FLIGHT})


async def _until_in_flight(ground: Ground, count: int) -> None:
    while await ground.database.value(_IN_FLIGHT) < count:  # noqa: ASYNC110 - the event is in the database
        await asyncio.sleep(0.02)


def _mb(size: int | None) -> float | None:
    return None if size is None else size / 1e6
