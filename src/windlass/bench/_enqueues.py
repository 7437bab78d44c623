"""How fast the SDK enqueues, from one process, with no worker about."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

from windlass.bench._ceiling import insert_commit
from windlass.bench._ground import Ground
from windlass.bench._result import Result, in_turns, rated

_AT_ONCE = 50


async def enqueue_single(ground: Ground) -> Result:
    """One at a time, each awaited."""
    return await _rated(ground, "enqueue_single", _one_by_one, ground.plan.singles)


async def enqueue_concurrent(ground: Ground) -> Result:
    """Fifty callers, each awaiting its own."""
    return await _rated(ground, "enqueue_concurrent", _together, ground.plan.together)


async def enqueue_bulk(ground: Ground) -> Result:
    """All in one call; `with_requests_per_s` counts the making of the requests too."""
    made: list[float] = []

    async def round_of_it() -> float:
        alone, with_requests = await _bulk(ground)
        made.append(with_requests)
        return alone

    ceiling, rates = await in_turns(ground.plan.rounds, lambda: insert_commit(ground), round_of_it)
    return rated("enqueue_bulk", rates, ceiling, with_requests_per_s=median(made), jobs=ground.plan.jobs)


async def _rated(ground: Ground, name: str, enqueue: Callable[[Ground, int], Awaitable[None]], count: int) -> Result:
    async def round_of_it() -> float:
        began = time.perf_counter()
        await enqueue(ground, count)
        took = time.perf_counter() - began
        await ground.clear()
        return count / took

    await enqueue(ground, _AT_ONCE)
    ceiling, rates = await in_turns(ground.plan.turns, lambda: insert_commit(ground), round_of_it)
    return rated(name, rates, ceiling, jobs=count)


async def _one_by_one(ground: Ground, count: int) -> None:
    for n in range(count):
        await ground.jobs.noop.enqueue(n)


async def _together(ground: Ground, count: int) -> None:
    numbers = iter(range(count))

    async def caller() -> None:
        for n in numbers:
            await ground.jobs.noop.enqueue(n)

    await asyncio.gather(*(caller() for _ in range(_AT_ONCE)))


async def _bulk(ground: Ground) -> tuple[float, float]:
    count, began = ground.plan.jobs, time.perf_counter()
    requests = [ground.jobs.noop.request(n) for n in range(count)]
    made = time.perf_counter()
    await ground.jobs.app.enqueue_many(requests)
    done = time.perf_counter()
    await ground.clear()
    return count / (done - made), count / (done - began)
