"""A job, followed: its log lines and its moves from state to state, told as they come."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import orjson

from windlass import engine, logs
from windlass.cli import _shown as shown
from windlass.db import Database
from windlass.model import JobState, JobView, LogLine

_LOOK_SECONDS = 0.15
_PAGE = 1000
# Workers ship lines every second, and ends at once: so lines may come after the end.
_LAST_LINES_SECONDS = 1.3


@dataclass(slots=True)
class Followed:
    """Where we are in one job."""

    database: Database
    tenant: UUID
    job_id: UUID
    seen: tuple[int, int] = (0, -1)
    told: str = ""

    async def to_the_end(self) -> JobView:
        """Tell everything until the job has ended; answers how."""
        while not (view := await engine.reads.job(self.database, self.tenant, self.job_id)).status.ended:
            self._tell_state(view)
            await self.tell_lines()
            await asyncio.sleep(_LOOK_SECONDS)
        await self._tell_last_lines(view)
        self._tell_end(view)
        return view

    async def tell_lines(self) -> None:
        """Tell the lines that came since the last look."""
        async for line in self.lines():
            tell_line(line)

    async def lines(self) -> AsyncIterator[LogLine]:
        """The lines that came since the last look."""
        more = True
        while more:
            page = await logs.read(self.database, self.tenant, self.job_id, self.seen, _PAGE)
            for line in page:
                self.seen = (line.attempt, line.seq)
                yield line
            more = len(page) == _PAGE

    async def _tell_last_lines(self, view: JobView) -> None:
        since_end = 0.0 if view.finished_at is None else (datetime.now(UTC) - view.finished_at).total_seconds()
        until = time.monotonic() + _LAST_LINES_SECONDS - max(since_end, 0.0)
        while (left := until - time.monotonic()) > 0:
            await self.tell_lines()
            await asyncio.sleep(min(_LOOK_SECONDS, left))
        await self.tell_lines()

    def _tell_state(self, view: JobView) -> None:
        now = " ".join(_state(view))
        if now != self.told:
            self.told = now
            shown.say_words(_clock(_since(view)), *_state(view))

    def _tell_end(self, view: JobView) -> None:
        took = view.finished_at - view.started_at if view.finished_at and view.started_at else None
        words = [str(view.status), *(["after", shown.lasting(took)] if took else [])]
        shown.say_words(_clock(view.finished_at or datetime.now(UTC)), *words)
        if view.status is JobState.SUCCEEDED and view.result is not None:
            shown.say(f"result: {shown.inline(view.result)}")
        elif view.error:
            shown.say(view.error)


def tell_line(line: LogLine) -> None:
    """One line of a job's log."""
    fields: dict[str, object] = orjson.loads(line.fields) if line.fields else {}
    rest = [f"{name}={value if isinstance(value, str) else shown.inline(value)}" for name, value in fields.items()]
    shown.say_words(_clock(line.at), line.level, " ".join([line.message, *rest]))


def _since(view: JobView) -> datetime:
    """Since when it is in this state, where that is known; else now."""
    begun = view.started_at if view.status is JobState.RUNNING and view.progress is None else None
    return begun or datetime.now(UTC)


def _state(view: JobView) -> Iterator[str]:
    yield view.status
    if view.status is JobState.RUNNING:
        yield f"attempt {view.attempt_count} of {view.max_attempts}"
        if view.progress is not None:
            yield f"{view.progress:.0%}"
            yield view.progress_note or ""
    elif view.waiting_on:
        yield str(view.waiting_on["text"])
    elif view.status is JobState.SCHEDULED and view.scheduled_for:
        yield f"for {_clock(view.scheduled_for)}"
        yield f"after attempt {view.attempt_count} of {view.max_attempts} failed" if view.attempt_count else ""


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
