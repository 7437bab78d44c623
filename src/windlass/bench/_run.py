"""A run: each line measured in its turn, on a ground of its own that is gone afterwards, whatever happens in between."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import uvloop

from windlass.bench._ceiling import claim_settle, insert_commit
from windlass.bench._ground import Ground, ground_on
from windlass.bench._lines import LINES
from windlass.bench._machine import facts_of, machine, version
from windlass.bench._plan import Plan
from windlass.bench._progress import Telling
from windlass.bench._report import Report
from windlass.bench._result import Ceilings, Result

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(plan: Plan, server_url: str) -> Report:
    """Measure what the plan says, on this server. Raises KeyboardInterrupt, with all cleaned up, when told to stop."""
    return uvloop.run(_until_told_to_stop(_measure(plan, server_url)))


async def _until_told_to_stop(work: "Awaitable[Report]") -> Report:
    """The first signal stops the work; those that follow do not disturb the cleaning up, which is short."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    told: list[bool] = []
    for number in _SIGNALS:
        loop.add_signal_handler(number, _stop_once, task, told)
    try:
        return await task
    except asyncio.CancelledError:
        if told:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _stop_once(task: "asyncio.Future[Report]", told: list[bool]) -> None:
    if not told:
        told.append(True)
        task.cancel()


async def _measure(plan: Plan, server_url: str) -> Report:
    ceilings = Ceilings()
    with Telling(len(plan.names)) as telling:

        def ground() -> AbstractAsyncContextManager[Ground]:
            return ground_on(plan, server_url, telling.note, ceilings)

        done = {name: await _line(ground, telling, name) for name in plan.order}
        async with ground() as last:
            await _complete(last)
            postgres = await facts_of(last.database)
    results = [done[name] for name in plan.names]
    return Report(plan, ceilings, results, machine(), postgres, await asyncio.to_thread(version))


async def _line(ground: Callable[[], AbstractAsyncContextManager[Ground]], telling: Telling, name: str) -> Result:
    """A line may leave millions of dead rows, and vacuum would clean up after it while the next one is measured."""
    telling.begin(name)
    async with ground() as fresh:
        result = await LINES[name].measure(fresh)
    telling.done()
    return result


async def _complete(ground: Ground) -> None:
    """A ceiling that none of the chosen lines needed is told all the same."""
    missing: list[Callable[[Ground], Awaitable[float]]] = []
    missing += [] if ground.ceilings.claim_settle else [claim_settle]
    missing += [] if ground.ceilings.insert_commit else [insert_commit]
    for _ in range(ground.plan.rounds):
        for ceiling in missing:
            await ceiling(ground)
