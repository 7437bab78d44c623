"""How fast worker processes run jobs that do nothing: from the moment they may be claimed to the last end written."""

import asyncio
import time
from dataclasses import dataclass
from statistics import median
from uuid import UUID

from windlass.bench._ceiling import claim_settle
from windlass.bench._ground import Ground
from windlass.bench._result import Figure, MeasureError, Result, in_turns, rated, ratio
from windlass.bench._workers import Workers, workers_on
from windlass.db import statement

_MARK = statement(__file__, "mark")
_CLAIMED = statement(__file__, "claimed")
_LIVE = statement(__file__, "live")
_ENDED = statement(__file__, "ended")
_LOOK_EVERY, _LOOK_AT_THE_END_EVERY = 0.02, 0.002
_PATIENCE = 60.0
_WARM = 2000


@dataclass(frozen=True, slots=True)
class Drain:
    """One round: jobs per second, and what a job cost the workers in processor time."""

    per_s: float
    cpu_us: float | None


async def drain_1(ground: Ground) -> Result:
    """One worker process, one tenant."""
    return await _by_workers(ground, "drain_1", 1)


async def drain_2(ground: Ground) -> Result:
    """Two worker processes, one tenant."""
    return await _by_workers(ground, "drain_2", 2)


async def drain_tenants(ground: Ground) -> Result:
    """One worker process, many tenants in turns; in turns with one tenant."""
    tenants = await ground.make_tenants(ground.plan.tenants)
    async with workers_on(ground.database, 1) as workers:
        await warm(ground, workers)
        ceiling, one, many = await in_turns(
            ground.plan.rounds,
            lambda: claim_settle(ground),
            lambda: drain_rate(ground, workers),
            lambda: drain_rate(ground, workers, tenants),
        )
    return rated("drain_tenants", many, ceiling, ratio_to_drain_1=ratio(many, one), tenants=len(tenants))


async def _by_workers(ground: Ground, name: str, count: int) -> Result:
    costs: list[float | None] = []

    async def round_of_it() -> float:
        found = await drain(ground, workers)
        costs.append(found.cpu_us)
        return found.per_s

    async with workers_on(ground.database, count) as workers:
        await warm(ground, workers)
        ceiling, rates = await in_turns(ground.plan.rounds, lambda: claim_settle(ground), round_of_it)
    return rated(name, rates, ceiling, worker_cpu_us_per_job=_middle(costs), jobs=ground.plan.jobs)


async def warm(ground: Ground, workers: Workers) -> None:
    """A worker that has run nothing yet has planned and cached nothing."""
    await drain(ground, workers, count=min(ground.plan.jobs, _WARM))


async def drain_rate(ground: Ground, workers: Workers, tenants: list[UUID] | None = None) -> float:
    """One round's jobs per second."""
    return (await drain(ground, workers, tenants)).per_s


async def drain(ground: Ground, workers: Workers, tenants: list[UUID] | None = None, count: int | None = None) -> Drain:
    """Release jobs to idle workers, and time them until the last is settled."""
    count = count or ground.plan.jobs
    await ground.sweep()
    await workers.idle()
    mark, claimed, spent = await ground.database.value(_MARK), await claims(ground), workers.cpu_seconds()
    await ground.fill(count, tenants=tenants)
    began = time.perf_counter()
    await until_ended(ground, workers, claimed + count)
    took = time.perf_counter() - began
    cost = _cost(spent, workers.cpu_seconds(), count)
    await _require_ended(ground, mark, count)
    return Drain(count / took, cost)


async def claims(ground: Ground) -> int:
    """How many claims there have ever been."""
    return await ground.database.value(_CLAIMED)


async def until_ended(ground: Ground, workers: Workers, target: int) -> None:
    """Wait for so many claims in all, which is cheap to see, and then, looked at often, until nothing is left."""
    try:
        async with asyncio.timeout(_PATIENCE + ground.plan.jobs / 1000):
            while await claims(ground) < target:
                workers.require_alive()
                await asyncio.sleep(_LOOK_EVERY)
            while await ground.database.value(_LIVE):
                workers.require_alive()
                await asyncio.sleep(_LOOK_AT_THE_END_EVERY)
    except TimeoutError:
        msg = f"The workers have stalled: {await claims(ground)} jobs of {target} were ever claimed."
        raise MeasureError(msg) from None


async def _require_ended(ground: Ground, mark: UUID, count: int) -> None:
    ended = await ground.database.value(_ENDED, mark)
    if ended != count:
        msg = f"Of {count} jobs {ended} succeeded: what was timed is not what was to be measured."
        raise MeasureError(msg)


def _cost(before: float | None, after: float | None, count: int) -> float | None:
    return None if before is None or after is None else (after - before) / count * 1e6


def _middle(values: list[float | None]) -> Figure:
    known = [value for value in values if value is not None]
    return median(known) if known else None
