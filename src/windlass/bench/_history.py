"""Whether what ended long ago slows down what runs now."""

from windlass.bench._ceiling import claim_settle
from windlass.bench._drains import drain_rate, warm
from windlass.bench._ground import Ground
from windlass.bench._result import Result, in_turns, rated, ratio
from windlass.bench._workers import workers_on
from windlass.db import statement

_PAST_PARTITIONS = statement(__file__, "past_partitions")
_PAST_JOBS = statement(__file__, "past_jobs")
_PAST_SWEEP = statement(__file__, "past_sweep")
_CHUNK = 100_000


async def drain_history(ground: Ground) -> Result:
    """One worker process on a database with many finished jobs; in turns with one on a database without."""
    async with ground.another() as past:
        await make_history(past, past.plan.history)
        async with workers_on(ground.database, 1) as free_workers, workers_on(past.database, 1) as past_workers:
            await warm(ground, free_workers)
            await warm(past, past_workers)
            ceiling, free, rates = await in_turns(
                ground.plan.rounds,
                lambda: claim_settle(ground),
                lambda: drain_rate(ground, free_workers),
                lambda: drain_rate(past, past_workers),
            )
    return rated("drain_history", rates, ceiling, ratio_to_drain_1=ratio(rates, free), history=ground.plan.history)


async def make_history(ground: Ground, count: int) -> None:
    """So many jobs that succeeded in the last four weeks, in those weeks' partitions."""
    await ground.database.rows(_PAST_PARTITIONS)
    for start in range(1, count + 1, _CHUNK):
        ground.note(f"history {start - 1:,} of {count:,}")
        last = min(start + _CHUNK - 1, count)
        await ground.database.rows(_PAST_JOBS, start, last, count, ground.tenant, ground.noop, ground.queue)
    await ground.database.rows(_PAST_SWEEP)
