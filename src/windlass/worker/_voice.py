"""What jobs say while they run: log lines in batches, progress now and then, costs added up."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from windlass.lifecycle import Loop
from windlass.model import Held, LogLine
from windlass.model.errors import Disconnected, WindlassError
from windlass.transports import Transport
from windlass.worker._running import Running
from windlass.worker._words import LONGEST_LINE, as_json, as_text
from windlass.worker.context import Logged, Progressed, Said, Spent, current_job

_log = structlog.get_logger("windlass.worker.voice")
_BATCH, _BATCH_SECONDS = 100, 1.0
_MOST_WAITING, _MOST_WAITING_SIZE = 50_000, 32 << 20
_MOST_LINES, _MOST_SIZE = 20_000, 8 << 20
_LONGEST_NOTE = 500
# A job given back runs again under the same attempt's number, so its lines are numbered from where its lease's number
# says: later than those of an earlier lease. 2**15 is more than an attempt may say, and the numbers stay below 2**53,
# which is the most that JavaScript counts to, for 2**38 leases.
_SEQ_BITS = 15
_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning"}


class Voice:
    """Collects what jobs say, and ships it. What is said waits in here at once, whichever thread says it: so the bounds
    hold although the loop is busy, and nothing is queued before them.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._lines: list[LogLine] = []
        self._size = 0
        self._progress: dict[Held, tuple[float, str | None]] = {}
        self._loop = Loop("voice", self._ship)
        self._woken = False

    def start(self) -> None:
        """Begin to ship."""
        self._asyncio = asyncio.get_running_loop()
        self._loop.start()

    async def stop(self) -> None:
        """Ship what is left, if it can be, and end."""
        await self._loop.stop()
        while self._lines:
            try:
                await self._ship()
            except Exception as problem:
                _log.warning("the last log lines were not shipped", lines=len(self._lines), error=str(problem))
                return

    def ended(self, running: Running) -> None:
        """What a job said is wanted when it has ended: do not keep it for company."""
        if running.lines:
            self._loop.wake()

    def said(self, running: Running, said: Said) -> None:
        """Take in what a job said. From any thread."""
        match said:
            case Logged():
                self._take_line(running, said)
            case Progressed(fraction, note):
                words = None if note is None else as_text(note, _LONGEST_NOTE)
                with self._lock:
                    self._progress[running.held] = (fraction, words)
            case Spent(cents):
                with self._lock:
                    running.cost_cents = (running.cost_cents or 0) + cents

    def _take_line(self, running: Running, said: Logged) -> None:
        if self._is_too_much(running):
            if running.truncated:
                return
            running.truncated = True
            said = Logged("warning", "… [log truncated: this attempt has said too much]", {})
        message, fields = as_text(said.message, LONGEST_LINE), as_json(said.fields) if said.fields else None
        job, now = running.job, datetime.now(UTC)
        with self._lock:
            running.lines += 1
            seq = (job.lease << _SEQ_BITS) + running.lines
            line = LogLine(job.tenant_id, job.id, job.attempt, seq, now, said.level, message, fields)
            running.line_size += _size(line)
            self._size += _size(line)
            self._lines.append(line)
            wake = len(self._lines) >= _BATCH and not self._woken
            self._woken = self._woken or wake
        if wake:
            with contextlib.suppress(RuntimeError):  # the worker has ended, and a thread has not noticed
                self._asyncio.call_soon_threadsafe(self._loop.wake)

    def _is_too_much(self, running: Running) -> bool:
        spent = running.lines > _MOST_LINES or running.line_size > _MOST_SIZE
        return spent or len(self._lines) > _MOST_WAITING or self._size > _MOST_WAITING_SIZE

    async def _ship(self) -> float:
        self._woken = False
        await self._ship_progress()
        with self._lock:
            batch, self._lines = self._lines[: _BATCH * 10], self._lines[_BATCH * 10 :]
        if batch:
            await self._ship_lines(batch)
        return 0.0 if len(self._lines) >= _BATCH else _BATCH_SECONDS

    async def _ship_lines(self, batch: Sequence[LogLine]) -> None:
        try:
            await self._transport.ship(batch)
        except Disconnected:
            with self._lock:
                self._lines[:0] = batch
            raise
        except Exception as problem:
            _log.error("log lines could not be stored", lines=len(batch), error=str(problem))
        with self._lock:
            self._size -= sum(map(_size, batch))

    async def _ship_progress(self) -> None:
        with self._lock:
            said, self._progress = self._progress, {}
        if not said:
            return
        try:
            await self._transport.progress([(held, fraction, note) for held, (fraction, note) in said.items()])
        except Disconnected:
            raise
        except WindlassError as problem:
            _log.warning("progress could not be noted", jobs=len(said), error=str(problem))


def _size(line: LogLine) -> int:
    return len(line.message) + len(line.fields or "")


class JobLogHandler(logging.Handler):
    """Standard `logging`, from inside a job, into that job's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record to the job it was said in, if any."""
        context = current_job.get()
        if context is None:
            return
        level = _LEVELS.get(record.levelno, "error" if record.levelno > logging.WARNING else "info")
        try:
            context.hear_log(Logged(level, self.format(record), {"logger": record.name}))
        except Exception:
            self.handleError(record)  # a record that cannot be formatted is no reason for the job to fail
