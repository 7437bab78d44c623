"""What jobs say while they run: log lines in batches, progress now and then, costs added up."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson
import structlog

from windlass.lifecycle import Loop
from windlass.model import Held, LogLine
from windlass.model.errors import Disconnected, WindlassError
from windlass.model.storable import clean_text
from windlass.transports import Transport
from windlass.worker._running import Running
from windlass.worker.context import Logged, Progressed, Said, Spent, current_job

_log = structlog.get_logger("windlass.worker.voice")
_BATCH, _BATCH_SECONDS = 100, 1.0
_MOST_WAITING = 50_000
_MOST_LINES, _MOST_BYTES, _LONGEST_LINE = 20_000, 8 << 20, 16_384
_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning"}


class Voice:
    """Collects what jobs say, and ships it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lines: list[LogLine] = []
        self._progress: dict[Held, tuple[float, str | None]] = {}
        self._loop = Loop("voice", self._ship)

    def start(self) -> None:
        """Begin to ship."""
        self._loop.start()

    async def stop(self) -> None:
        """Ship what is left, and end."""
        await self._loop.stop()
        while self._lines:
            try:
                await self._ship()
            except Disconnected:
                return

    def ended(self, running: Running) -> None:
        """What a job said is wanted when it has ended: do not keep it for company."""
        if running.lines:
            self._loop.wake()

    def said(self, running: Running, said: Said) -> None:
        """Take in what a job said. Only on the worker's loop."""
        match said:
            case Logged():
                self._take_line(running, said)
            case Progressed(fraction, note):
                self._progress[running.held] = (fraction, clean_text(note, 500))
            case Spent(cents):
                running.cost_cents = (running.cost_cents or 0) + cents
        if len(self._lines) >= _BATCH:
            self._loop.wake()

    def _take_line(self, running: Running, said: Logged) -> None:
        if running.lines > _MOST_LINES or running.line_bytes > _MOST_BYTES or len(self._lines) > _MOST_WAITING:
            if "truncated" in running.told:
                return
            running.told.add("truncated")
            said = Logged("warning", "… [log truncated: this attempt has said too much]", {})
        message = clean_text(said.message, _LONGEST_LINE) or ""
        running.lines += 1
        running.line_bytes += len(message)
        running.seq += 1
        job = running.job
        fields = _fields(said.fields) if said.fields else None
        self._lines.append(
            LogLine(job.tenant_id, job.id, job.attempt, running.seq, datetime.now(UTC), said.level, message, fields)
        )

    async def _ship(self) -> float:
        await self._ship_progress()
        if self._lines:
            batch, self._lines = self._lines[: _BATCH * 10], self._lines[_BATCH * 10 :]
            await self._ship_lines(batch)
        return 0.0 if len(self._lines) >= _BATCH else _BATCH_SECONDS

    async def _ship_lines(self, batch: Sequence[LogLine]) -> None:
        try:
            await self._transport.ship(batch)
        except Disconnected:
            self._lines[:0] = batch
            raise
        except WindlassError as problem:
            _log.error("log lines could not be stored", lines=len(batch), error=str(problem))

    async def _ship_progress(self) -> None:
        said, self._progress = self._progress, {}
        if said:
            await self._transport.progress([(held, fraction, note) for held, (fraction, note) in said.items()])


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


def _fields(fields: dict[str, object]) -> str:
    try:
        text = orjson.dumps(fields, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError, RecursionError):
        text = orjson.dumps({"unreadable": clean_text(ascii(fields), 1000)}).decode()
    return text.replace("\\u0000", "\\ufffd") if len(text) <= _LONGEST_LINE else '{"truncated": true}'
