"""Heartbeats and lease renewal, in a thread with an event loop and a connection of its own.

A handler that blocks the worker's loop, or a pool that handlers have emptied, does not cost the leases. A
frozen process (SIGSTOP) freezes this thread too, so its leases run out as they should.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from windlass.model import Held
from windlass.model.errors import WindlassError
from windlass.transports import Pulse, Transport

_log = structlog.get_logger("windlass.worker.lifeline")
BEAT_SECONDS = 3.0
_HURRY = 0.5


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a heartbeat says: how many jobs run, how much memory is used, which leases to renew."""

    running: int
    rss_bytes: int
    renew: Sequence[Held]


class Lifeline(threading.Thread):
    """Beats until stopped; `vitals` is called in this thread, `heard` must be safe to call from it."""

    def __init__(
        self,
        transport: Transport,
        vitals: Callable[[], Vitals],
        heard: Callable[[Vitals, Pulse], None],
        every: float = BEAT_SECONDS,
    ) -> None:
        super().__init__(name="windlass-lifeline", daemon=True)
        self._transport, self._vitals, self._heard, self._every = transport, vitals, heard, every
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._stopping = False
        self.last_beat = time.monotonic()

    def start(self) -> None:
        """Begin to beat."""
        self.last_beat = time.monotonic()
        super().start()

    def poke(self) -> None:
        """Beat now: somebody may have asked for a cancel."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the thread has just ended
                self._loop.call_soon_threadsafe(self._wake.set)

    def stop(self) -> None:
        """End; `join` afterwards."""
        self._stopping = True
        self.poke()

    def run(self) -> None:
        """Run the thread."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not self._stopping:
            rest = await self._beat()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), rest)
            self._wake.clear()
        with contextlib.suppress(Exception):  # nobody is left to whom it matters
            await asyncio.wait_for(self._transport.rest_beat(), self._every)

    async def _beat(self) -> float:
        """One heartbeat; whatever keeps it from getting through, the next one is tried soon."""
        try:
            vitals = self._vitals()
            pulse = await asyncio.wait_for(self._transport.beat(vitals.running, vitals.rss_bytes, vitals.renew), self._every * 2)
            self.last_beat = time.monotonic()
            self._heard(vitals, pulse)
        except Exception as problem:
            _log.warning("heartbeat failed", error=_told(problem), silent_seconds=round(time.monotonic() - self.last_beat, 1))
            return min(_HURRY, self._every)
        return self._every


def _told(problem: Exception) -> str:
    match problem:
        case TimeoutError():
            return "no answer in time"
        case WindlassError():
            return str(problem)
        case _:
            return f"{type(problem).__name__}: {problem}"
