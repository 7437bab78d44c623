"""The jobs that are measured: one that does nothing, one that says when it started, one that stays."""

import asyncio
import time
from dataclasses import dataclass

from windlass.client import Job, Windlass


async def noop(n: int = 0) -> None:
    """Do nothing, with a small payload."""
    del n


async def stamp() -> int:
    """Say when this began, on the clock that all processes of a machine share."""
    return time.monotonic_ns()


async def hold(seconds: float) -> None:
    """Stay in flight."""
    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Jobs:
    """The app with its jobs, on one database."""

    app: Windlass
    noop: Job[[int], None]
    stamp: Job[[], int]
    hold: Job[[float], None]


def jobs_on(url: str) -> Jobs:
    """Define them on a database."""
    app = Windlass(url, name="windlass.bench")
    return Jobs(app, app.job(noop), app.job(stamp), app.job(hold))
