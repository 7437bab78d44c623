"""Whether a transaction that somebody left open slows down what runs now: nothing deleted can be taken out."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from statistics import median

from windlass.bench._ceiling import claim_settle
from windlass.bench._drains import claims, drain_rate, until_ended, warm
from windlass.bench._ground import Ground, opened
from windlass.bench._result import Result, in_turns
from windlass.bench._workers import Workers, workers_on
from windlass.db import statement

_SNAPSHOT = statement(__file__, "snapshot")
_OPEN = "set transaction isolation level repeatable read; set local idle_in_transaction_session_timeout = 0"
_LOOK_EVERY = 0.1
_LEAST_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Flow:
    """Jobs claimed over time while the queue is kept filled: `(seconds, claims)`."""

    samples: Sequence[tuple[float, int]]
    filled: int

    def per_s(self, start: float = 0.0, end: float = 1.0) -> float:
        """The rate between two parts of the time."""
        first, last = (self.samples[round(part * (len(self.samples) - 1))] for part in (start, end))
        return (last[1] - first[1]) / (last[0] - first[0])


async def drain_held_snapshot(ground: Ground) -> Result:
    """One worker process while a snapshot is held open; beside it the same without, and the plain drain.

    The queue is refilled while it drains, on the same processors. So the fair comparison, `ratio_to_free`, is to
    a flow refilled in the same way without the snapshot; `ratio_to_drain_1` is to the drain that nobody refills.
    """
    seconds = ground.plan.hold_seconds
    async with workers_on(ground.database, 1) as workers:
        await warm(ground, workers)
        ceiling, plain = await in_turns(ground.plan.rounds, lambda: claim_settle(ground), lambda: drain_rate(ground, workers))
        free = await _flow(ground, workers, seconds / 2)
        async with held_snapshot(ground.database.url):
            held = await _flow(ground, workers, seconds)
    return _result(held, free, median(ceiling), median(plain))


@asynccontextmanager
async def held_snapshot(url: str) -> AsyncGenerator[None]:
    """Somebody's transaction, open and idle."""
    async with opened(url) as database, database.transaction() as tx:
        await tx.script(_OPEN)
        await tx.value(_SNAPSHOT)
        yield


async def _flow(ground: Ground, workers: Workers, seconds: float) -> Flow:
    """Keep the queue filled for so long, and note how many jobs are claimed; then let it run dry."""
    ground.note(f"{seconds:g} s")
    await ground.sweep()
    await workers.idle()
    started = await claims(ground)
    feeder = _Feeder(ground, started)
    await feeder.feed()
    feeding = asyncio.create_task(feeder.run())
    try:
        samples = await _watch(ground, workers, seconds)
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding
    await until_ended(ground, workers, started + feeder.filled)
    return Flow(samples, feeder.filled)


class _Feeder:
    """Keeps between two and three chunks waiting."""

    def __init__(self, ground: Ground, started: int) -> None:
        self._ground, self._started = ground, started
        self._chunk = max(ground.plan.jobs // 4, _LEAST_CHUNK)
        self.filled = 0

    async def run(self) -> None:
        """Feed until cancelled."""
        while True:
            await self.feed()
            await asyncio.sleep(_LOOK_EVERY / 10)

    async def feed(self) -> None:
        """Fill up what is missing. A cancel does not part the jobs from their being counted."""
        while self._started + self.filled - await claims(self._ground) < 2 * self._chunk:
            await asyncio.shield(asyncio.ensure_future(self._add()))

    async def _add(self) -> None:
        self.filled += self._chunk
        await self._ground.fill(self._chunk)


async def _watch(ground: Ground, workers: Workers, seconds: float) -> list[tuple[float, int]]:
    began = time.perf_counter()
    samples = [(0.0, await claims(ground))]
    while samples[-1][0] < seconds:
        await asyncio.sleep(_LOOK_EVERY)
        workers.require_alive()
        claimed = await claims(ground)
        samples.append((time.perf_counter() - began, claimed))
    return samples


def _result(held: Flow, free: Flow, ceiling: float, plain: float) -> Result:
    first, last = held.per_s(0.0, 0.25), held.per_s(0.75, 1.0)
    return Result("drain_held_snapshot", {
        "per_s": held.per_s(), "ratio": held.per_s() / ceiling, "ratio_to_drain_1": held.per_s() / plain,
        "ratio_to_free": held.per_s() / free.per_s(), "flat": last / first, "first_quarter_per_s": first,
        "last_quarter_per_s": last, "free_per_s": free.per_s(), "ceiling_per_s": ceiling,
        "held_seconds": held.samples[-1][0], "jobs": held.filled,
    })  # fmt: skip
