"""Writes ends in batches that form by themselves: while one is in flight the next collects.

An end is never dropped and never made into another: while the database is away, or refuses for reasons that pass (a
full disk, a lock, an operator), ends wait and are written when they can be. A lot that is refused again and again is
split, so that one that cannot be written does not keep the others. Only an end whose values cannot be stored at all is
written as a failure that says so.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from windlass.lifecycle import rest_after
from windlass.model import AttemptStatus, JobState, Settled
from windlass.model.errors import Disconnected, NotStorable
from windlass.transports import Transport

_log = structlog.get_logger("windlass.worker.settle")
_BATCH = 500
_WHY = "What the job left cannot be stored"
_PASSING = 2  # refusals in a row after which a lot is split: until then it is likely that all would be refused
_LONG = 10.0  # seconds without an answer


@dataclass(slots=True, eq=False)
class _Lot:
    """Ends that are written by one statement, not before `due` on the monotonic clock."""

    ends: list[Settled]
    failures: int = 0
    due: float = 0.0

    def halves(self) -> "list[_Lot]":
        """The same in two, so that what is refused is found, or there is less to do at once."""
        middle = (len(self.ends) + 1) // 2
        return [_Lot(part, self.failures, self.due) for part in (self.ends[:middle], self.ends[middle:]) if part]


class Settler:
    """`put` ends; `done(ends, held)` is called once some are written, with the numbers of the leases still held."""

    def __init__(self, transport: Transport, done: Callable[[Sequence[Settled], set[int]], None]) -> None:
        self._transport = transport
        self._done = done
        self._waiting: list[Settled] = []
        self._lots: list[_Lot] = []  # in hand: one, or those that were refused
        self._in_vain = 0  # tries, since something was written
        self._news: asyncio.Future[None] | None = None  # while it rests
        self._flushing: asyncio.Task[None] | None = None
        self._abandoned = False
        self._clean = contextvars.copy_context()  # `put` is called in a job's

    def put(self, end: Settled) -> None:
        """Have this written soon."""
        self._waiting.append(end)
        if self._flushing is None:
            if not self._abandoned:
                self._begin()
        elif self._news is not None and not self._news.done():
            self._news.set_result(None)

    @property
    def unwritten(self) -> int:
        """How many ends are not written yet, those in flight included."""
        return len(self._waiting) + sum(len(lot.ends) for lot in self._lots)

    @property
    def leases(self) -> set[int]:
        """The leases of those ends."""
        return {end.lease for ends in (self._waiting, *(lot.ends for lot in self._lots)) for end in ends}

    def abandon(self) -> None:
        """Try no more to write what is left."""
        self._abandoned = True
        if self._flushing is not None:
            self._flushing.cancel()

    async def drained(self) -> None:
        """Wait until all that was put is written."""
        while self.unwritten:
            await asyncio.wait({self._flushing or self._begin()})

    def _begin(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        self._flushing = loop.create_task(self._flush(), name="windlass-settle", context=self._clean.copy())
        return self._flushing

    async def _flush(self) -> None:
        try:
            while self._waiting or self._lots:
                lot = self._next()
                if lot.due > time.monotonic():
                    await self._rest(lot.due)
                else:
                    await self._write(lot)
        finally:
            self._flushing = None

    def _next(self) -> _Lot:
        """A refused lot whose time has come, else those that were never tried, else what is due first. It stays in
        hand until it is written, so that nothing that happens here can lose it.
        """
        first = min(self._lots, key=lambda lot: lot.due, default=None)
        if first is not None and (first.due <= time.monotonic() or not self._waiting):
            return first
        fresh = _Lot(self._waiting[:_BATCH])
        del self._waiting[:_BATCH]
        self._lots.append(fresh)
        return fresh

    async def _rest(self, until: float) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait({self._news}, timeout=until - time.monotonic())
        finally:
            self._news = None

    async def _write(self, lot: _Lot) -> None:
        began = time.monotonic()
        try:
            held = await self._transport.settle(lot.ends)
        except Disconnected as problem:
            if time.monotonic() - began > _LONG:
                lot.failures = max(lot.failures, _PASSING)  # not the line, but too much at once
            self._put_off(lot, problem)
            await asyncio.sleep(rest_after(self._in_vain))  # the others would fare no better
        except NotStorable as problem:
            self._sort_out(lot, problem)
        except Exception as problem:
            self._put_off(lot, problem)
        else:
            self._in_vain = 0
            self._lots.remove(lot)
            self._tell(lot.ends, held)

    def _put_off(self, lot: _Lot, problem: Exception) -> None:
        lot.failures += 1
        self._in_vain += 1
        if not lot.failures & (lot.failures - 1):  # the first time, and ever less often
            _log.warning("cannot settle yet", jobs=len(lot.ends), error=f"{type(problem).__name__}: {problem}",
                         failures=lot.failures)  # fmt: skip
        # One that is refused alone waits for longer and longer; of several most may be as good as what was written.
        failures = lot.failures if len(lot.ends) == 1 else self._in_vain
        lot.due = time.monotonic() + (0.0 if isinstance(problem, Disconnected) else rest_after(failures))
        if lot.failures > _PASSING:
            self._split(lot)

    def _sort_out(self, lot: _Lot, problem: NotStorable) -> None:
        """Something in the lot cannot be stored: find it, and store in its place that it cannot be."""
        if len(lot.ends) > 1:
            self._split(lot)
            return
        lesser = _lesser(lot.ends[0], problem)
        if lesser is None:
            self._put_off(lot, problem)
            return
        _log.error("an end cannot be stored as it is", job_id=str(lesser.job_id), error=str(problem))
        lot.ends = [lesser]

    def _split(self, lot: _Lot) -> None:
        self._lots.remove(lot)
        self._lots += lot.halves()

    def _tell(self, ends: Sequence[Settled], held: set[int]) -> None:
        try:
            self._done(ends, held)
        except Exception:
            _log.exception("what was settled could not be told")


def _lesser(end: Settled, problem: NotStorable) -> Settled | None:
    """What to write in place of an end that was refused: why, in ASCII; if that was refused too, as little as can be
    said; None when there is nothing left to take away.
    """
    bare = replace(end, status=AttemptStatus.FAILED, state=JobState.FAILED, result=None, error=None, exit_code=None,
                   cost_cents=0, stdout_tail=None, stderr_tail=None)  # fmt: skip
    if end == bare:
        return None
    if end.error is not None and end.error.startswith(_WHY):
        return bare
    told = ascii(f"{_WHY}: {problem}")[1:-1]
    return replace(end, status=AttemptStatus.FAILED, state=JobState.FAILED, result=None, error=told,
                   stdout_tail=None, stderr_tail=None)  # fmt: skip
