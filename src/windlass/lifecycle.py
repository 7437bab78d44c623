"""How things run in the background: one Loop class, whose body answers how long to rest."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import structlog

_log = structlog.get_logger("windlass.lifecycle")
_FIRST_REST = 0.25
_LONGEST_REST = 3.0  # most failures are a database that is away, and it is wanted as soon as it is back


class Loop:
    """Runs `body` again and again; what it answers is the rest in seconds, which `wake` only shortens.

    A body that raises is logged and tried again after a growing rest: a background thing never dies
    silently. Stopping cancels a rest at once, but lets a body that is at work finish.
    """

    def __init__(self, name: str, body: Callable[[], Awaitable[float]]) -> None:
        self.name = name
        self.failures = 0
        self._body = body
        self._woken = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; a second call does nothing."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"windlass-{self.name}")

    def wake(self) -> None:
        """End the present rest, or the next one if the body is at work."""
        self._woken.set()

    async def stop(self) -> None:
        """Let the body finish, then end."""
        self._stopping = True
        self.wake()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            rest = await self._attempt()
            if rest > 0 and not self._stopping:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), rest)

    async def _attempt(self) -> float:
        try:
            rest = await self._body()
        except Exception as problem:
            self.failures += 1
            rest = rest_after(self.failures)
            _log.warning("loop failed", loop=self.name, error=f"{type(problem).__name__}: {problem}",
                         failures=self.failures, next_in=round(rest, 2), exc_info=self.failures == 1)  # fmt: skip
        else:
            self.failures = 0
        return rest


def rest_after(failures: int, longest: float = _LONGEST_REST) -> float:
    """How long to rest after this many failures in a row: growing, capped, never in step with others."""
    return min(_FIRST_REST * 2 ** min(failures - 1, 10), longest) * random.uniform(0.8, 1.2)  # noqa: S311
