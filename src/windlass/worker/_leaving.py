"""The steps of a worker that leaves: each has its time, and none keeps the next from being taken."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import structlog

_log = structlog.get_logger("windlass.worker.leaving")
LAST_WORDS = 5.0


async def bounded(what: str, work: Awaitable[Any], seconds: float = LAST_WORDS) -> None:
    """Wait for a step, but not longer. That it failed, or takes longer, is logged; it is not broken off, for it may
    still come to an end.
    """
    step = asyncio.ensure_future(work)
    step.add_done_callback(_heard)
    await asyncio.wait({step}, timeout=seconds)
    if not step.done():
        _log.warning("a step of leaving takes too long", step=what, seconds=seconds)
    elif not step.cancelled() and (problem := step.exception()) is not None:
        _log.warning("a step of leaving failed", step=what, error=f"{type(problem).__name__}: {problem}")


def _heard(step: "asyncio.Future[Any]") -> None:
    if not step.cancelled():
        step.exception()
