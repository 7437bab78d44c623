"""Whether a transaction that somebody left open slows down what runs now: nothing deleted can be taken out."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from statistics import median

from windlass.bench._ceiling import claim_settle
from windlass.bench._drains import claims, drain_rate, until_ended, warm
from windlass.bench._ground import Ground, opened
from windlass.bench._result import Result, in_turns
from windlass.bench._workers import Workers, workers_on
from windlass.db import statement

_SNAPSHOT = statement(__file__, "snapshot")
_OPEN = "set transaction isolation level repeatable read; set local idle_in_transaction_session_timeout = 0"
_LOOK_EVERY = 0.01
_LEAST_CHUNK = 500
_TURN_SECONDS = 5.0


async def drain_held_snapshot(ground: Ground) -> Result:
    """One worker process while a snapshot is held open, in turns with another in a database where none is.

    A snapshot holds up only its own database; the two take turns of a few seconds, so that what the machine does in
    ten minutes hits both alike. The queue is refilled while it drains, on the same processors, so the fair comparison,
    `ratio_to_free`, is to the other; `ratio_to_drain_1` is to the drain that nobody refills.
    """
    seconds = ground.plan.hold_seconds
    turn = min(_TURN_SECONDS, seconds / 4)
    held: list[float] = []
    free: list[float] = []
    async with workers_on(ground.database, 1) as workers, ground.another() as other, workers_on(other.database, 1) as others:
        await warm(ground, workers)
        await warm(other, others)
        ceiling, plain = await in_turns(ground.plan.rounds, lambda: claim_settle(ground), lambda: drain_rate(ground, workers))
        await other.sweep()
        async with held_snapshot(ground.database.url):
            for number in range(max(round(seconds / turn), 4)):
                ground.note(f"{number * turn:g} of {seconds:g} s")
                held.append(await _flow(ground, workers, turn))
                free.append(await _flow(other, others, turn))
    return _result(held, free, turn, median(ceiling), median(plain))


@asynccontextmanager
async def held_snapshot(url: str) -> AsyncGenerator[None]:
    """Somebody's transaction, open and idle."""
    async with opened(url) as database, database.transaction() as tx:
        await tx.script(_OPEN)
        await tx.value(_SNAPSHOT)
        yield


async def _flow(ground: Ground, workers: Workers, seconds: float) -> float:
    """Keep the queue filled for so long, and tell how many jobs a second were claimed; then let it run dry."""
    await workers.idle()
    started = await claims(ground)
    feeder = _Feeder(ground, started)
    await feeder.feed()
    feeding = asyncio.create_task(feeder.run())
    try:
        rate = await _watch(ground, workers, seconds)
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding
    await until_ended(ground, workers, started + feeder.filled)
    return rate


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
            await asyncio.sleep(_LOOK_EVERY)

    async def feed(self) -> None:
        """Fill up what is missing. A cancel does not part the jobs from their being counted."""
        while self._started + self.filled - await claims(self._ground) < 2 * self._chunk:
            await asyncio.shield(asyncio.ensure_future(self._add()))

    async def _add(self) -> None:
        self.filled += self._chunk
        await self._ground.fill(self._chunk)


async def _watch(ground: Ground, workers: Workers, seconds: float) -> float:
    began, first = time.perf_counter(), await claims(ground)
    while time.perf_counter() - began < seconds:
        await asyncio.sleep(_LOOK_EVERY * 10)
        workers.require_alive()
    last = await claims(ground)
    return (last - first) / (time.perf_counter() - began)


def _result(held: Sequence[float], free: Sequence[float], turn: float, ceiling: float, plain: float) -> Result:
    """`flat` is how the last quarter of the turns stands to the first, each measured by the other database's turn."""
    ratios = [one / other for one, other in zip(held, free, strict=True)]
    quarter = max(len(ratios) // 4, 1)
    return Result("drain_held_snapshot", {
        "per_s": median(held), "ratio": median(held) / ceiling, "ratio_to_drain_1": median(held) / plain,
        "ratio_to_free": median(ratios), "flat": median(ratios[-quarter:]) / median(ratios[:quarter]),
        "first_quarter_per_s": median(held[:quarter]), "last_quarter_per_s": median(held[-quarter:]),
        "free_per_s": median(free), "ceiling_per_s": ceiling, "held_seconds": turn * len(held),
    })  # fmt: skip
