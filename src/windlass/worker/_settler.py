"""Writes ends in batches that form by themselves: while one is in flight the next collects.

An end is never dropped: when the database is away it waits, when one end of a batch cannot be stored it is
written as a failure that says so, and the rest is written all the same.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from windlass.lifecycle import rest_after
from windlass.model import AttemptStatus, JobState, Settled
from windlass.model.errors import Disconnected, WindlassError
from windlass.transports import Transport

_log = structlog.get_logger("windlass.worker.settle")
_BATCH = 500


class Settler:
    """`put` ends; `done(end, was_held)` is called for each once it is written."""

    def __init__(self, transport: Transport, done: Callable[[Settled, bool], None]) -> None:
        self._transport = transport
        self._done = done
        self._waiting: list[Settled] = []
        self._flushing: asyncio.Task[None] | None = None

    def put(self, end: Settled) -> None:
        """Have this written soon."""
        self._waiting.append(end)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(), name="windlass-settle")

    @property
    def waiting(self) -> int:
        """How many ends are not written yet, besides those in flight."""
        return len(self._waiting)

    async def drained(self) -> None:
        """Wait until all that was put is written."""
        while self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
                await self._write(batch)
        finally:
            self._flushing = None

    async def _write(self, batch: Sequence[Settled]) -> None:
        held = await self._insist(batch)
        for end in batch:
            self._done(end, end.lease in held)

    async def _insist(self, batch: Sequence[Settled]) -> set[int]:
        failures = 0
        while True:
            try:
                return await self._transport.settle(batch)
            except Disconnected as problem:
                failures += 1
                _log.warning("cannot settle yet", jobs=len(batch), error=str(problem), failures=failures)
                await asyncio.sleep(rest_after(failures))
            except WindlassError as problem:
                return await self._one_by_one(batch, problem)

    async def _one_by_one(self, batch: Sequence[Settled], problem: WindlassError) -> set[int]:
        """Something in the batch cannot be stored: find it, and store in its place that it cannot be."""
        if len(batch) > 1:
            return {lease for end in batch for lease in await self._insist([end])}
        _log.error("an end cannot be stored as it is", job_id=str(batch[0].job_id), error=str(problem))
        return await self._insist([_unstorable(batch[0], problem)])


def _unstorable(end: Settled, problem: WindlassError) -> Settled:
    if end.error is not None and end.result is None and end.stdout_tail is None:
        # Even the bare words were refused: say as little as can be said, and end it.
        return replace(end, status=AttemptStatus.FAILED, state=JobState.FAILED, error=None, exit_code=None, cost_cents=0)
    told = ascii(f"What the job left cannot be stored: {problem}")
    return replace(end, status=AttemptStatus.FAILED, state=JobState.FAILED, result=None, error=told[1:-1],
                   stdout_tail=None, stderr_tail=None)  # fmt: skip
