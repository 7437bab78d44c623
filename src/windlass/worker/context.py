"""What a handler gets to know and to say about the job it runs."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from windlass.model import ClaimedJob, Enqueued, NewJob


@dataclass(frozen=True, slots=True)
class Logged:
    """A line for the job's log."""

    level: str
    message: str
    fields: dict[str, object]


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far the job says it is, from 0 to 1."""

    fraction: float
    note: str | None


@dataclass(frozen=True, slots=True)
class Spent:
    """What the job says it cost."""

    cents: int


Said = Logged | Progressed | Spent


@dataclass(frozen=True, slots=True)
class Wire:
    """Where a job's words go: the worker's own loop, or the pipe to it from a child process.

    One per worker, called from any thread; none of the functions blocks.
    """

    say: Callable[[ClaimedJob, Said], None]
    enqueue: Callable[[ClaimedJob, Sequence[NewJob]], "Future[list[Enqueued]]"]
    canceled: Callable[[ClaimedJob], bool]


class JobLog:
    """The job's log: `ctx.log("text", rows=3)`. Standard `logging` inside a job lands in it too."""

    __slots__ = ("_job", "_wire")

    def __init__(self, job: ClaimedJob, wire: Wire) -> None:
        self._job, self._wire = job, wire

    def __call__(self, message: str, **fields: object) -> None:
        """The same as `info`."""
        self._wire.say(self._job, Logged("info", message, fields))

    info = __call__

    def debug(self, message: str, **fields: object) -> None:
        """A line that matters to the job's author."""
        self._wire.say(self._job, Logged("debug", message, fields))

    def warning(self, message: str, **fields: object) -> None:
        """A line that may matter to whoever looks after the job."""
        self._wire.say(self._job, Logged("warning", message, fields))

    def error(self, message: str, **fields: object) -> None:
        """A line that does."""
        self._wire.say(self._job, Logged("error", message, fields))


class JobContext:
    """Injected into a handler whose first parameter is annotated with it. Safe to use from any thread."""

    __slots__ = ("_deadline", "_job", "_wire", "key")

    def __init__(self, job: ClaimedJob, key: str, wire: Wire, deadline: float | None = None) -> None:
        """`deadline` is on this process's monotonic clock."""
        self._job, self._wire = job, wire
        self.key = key
        self._deadline = deadline

    @property
    def deadline(self) -> datetime | None:
        """When the attempt will be stopped, if it has a timeout."""
        if self._deadline is None:
            return None
        return datetime.now(UTC) + timedelta(seconds=self._deadline - time.monotonic())

    @property
    def job_id(self) -> UUID:
        """The job's id."""
        return self._job.id

    @property
    def tenant_id(self) -> UUID:
        """Whose job it is."""
        return self._job.tenant_id

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        """How many there may be."""
        return self._job.max_attempts

    @property
    def log(self) -> JobLog:
        """The job's log."""
        return JobLog(self._job, self._wire)

    @property
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop; a thread should look now and then and return."""
        return self._wire.canceled(self._job)

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Say how far the job is, from 0 to 1, and optionally at what. NaN says nothing."""
        if not math.isnan(fraction):
            self._wire.say(self._job, Progressed(min(max(float(fraction), 0.0), 1.0), note))

    def add_cost(self, cents: int) -> None:
        """Add to what this job has cost."""
        self._wire.say(self._job, Spent(int(cents)))

    def hear_log(self, said: Logged) -> None:
        """Take in a line that the standard `logging` caught."""
        self._wire.say(self._job, said)

    async def enqueue(self, *jobs: NewJob) -> list[Enqueued]:
        """Enqueue children in this job's tenant, with this job as their parent: `handler.request(…)`."""
        return await asyncio.wrap_future(self._wire.enqueue(self._job, jobs))

    def enqueue_and_wait(self, *jobs: NewJob) -> list[Enqueued]:
        """The same for plain functions, which run in threads and processes; never call it on the event loop."""
        return self._wire.enqueue(self._job, jobs).result()


# The job whose code is running, for whatever is called without a context: logging, enqueue.
current_job: ContextVar[JobContext | None] = ContextVar("windlass_current_job", default=None)
