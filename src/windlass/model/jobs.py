"""Jobs as rooms hand them to each other. Plain slotted values: thousands are made per second."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from windlass.model.states import AttemptStatus, JobState


@dataclass(slots=True)
class NewJob:
    """A job to be enqueued; `payload` is JSON text that has been checked. Not to be changed once made: it is not
    frozen only because that triples the time of making one.
    """

    key: str
    payload: str = "{}"
    tenant: str = "default"
    priority: int | None = None
    delay: float | None = None
    due_at: datetime | None = None
    max_attempts: int | None = None
    dedupe_key: str | None = None
    dedupe_window: float | None = None
    correlation_id: str | None = None
    depends_on: tuple[UUID, ...] = ()
    parent_id: UUID | None = None
    source: str = "manual"
    source_ref: str | None = None
    created_by: str | None = None

    @property
    def plain(self) -> bool:
        """Whether it needs neither dedupe nor dependencies: then many go in one statement."""
        return self.dedupe_key is None and not self.depends_on

    @property
    def alike(self) -> tuple[object, ...]:
        """All but the payload: jobs of which this is equal go by one short statement."""
        return (
            self.key, self.tenant, self.priority, self.delay, self.due_at, self.max_attempts, self.correlation_id,
            self.parent_id, self.source, self.source_ref, self.created_by,
        )  # fmt: skip

    def with_payload(self, payload: str) -> "NewJob":
        """The same job with another payload; a third of the time of `dataclasses.replace`."""
        return NewJob(
            self.key, payload, self.tenant, self.priority, self.delay, self.due_at, self.max_attempts, self.dedupe_key,
            self.dedupe_window, self.correlation_id, self.depends_on, self.parent_id, self.source, self.source_ref,
            self.created_by,
        )  # fmt: skip


class Enqueued(NamedTuple):
    """What became of a NewJob: its id, or that of the live job with the same dedupe key."""

    id: UUID
    deduplicated: bool = False


class ClaimedJob(NamedTuple):
    """A job this worker now holds, until its lease ends. The fields stand in claim.sql's order."""

    id: UUID
    lease: int
    tenant_id: UUID
    definition_id: UUID
    attempt: int
    max_attempts: int
    priority: int
    payload: str


class Held(NamedTuple):
    """A lease as its holder names it."""

    job_id: UUID
    lease: int


@dataclass(slots=True)
class Settled:
    """How an attempt ended, ready to be written: one row of a settle batch."""

    job_id: UUID
    lease: int
    status: AttemptStatus
    state: JobState | None = None
    result: str | None = None
    error: str | None = None
    retry_after: float | None = None
    spends_attempt: bool = True
    ran_ms: float = 0.0
    ended: float = 0.0
    exit_code: int | None = None
    cost_cents: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None

    @property
    def lean(self) -> bool:
        """Whether it is the common end, which settles by the leanest statement."""
        return self.state is JobState.SUCCEEDED and self.exit_code is None and self.cost_cents is None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker's life from one start to its end. `birth` tells the process from a later one with the same pid."""

    id: UUID
    name: str
    hostname: str
    pid: int
    version: str
    queues: tuple[str, ...]
    definitions: tuple[str, ...]
    concurrency: int
    birth: str | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line a job said."""

    tenant_id: UUID
    job_id: UUID
    attempt: int
    seq: int
    at: datetime
    level: str
    message: str
    fields: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One try, as people see it (API §4)."""

    attempt_no: int
    status: AttemptStatus
    worker_id: UUID | None
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: float | None
    exit_code: int | None
    error: str | None
    stdout_tail: str | None
    stderr_tail: str | None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job, as people see it (API §4.1)."""

    id: UUID
    tenant_id: UUID
    tenant: str
    definition_key: str
    status: JobState
    queue: str
    priority: int
    source: str
    source_ref: str | None
    dedupe_key: str | None
    correlation_id: str | None
    parent_id: UUID | None
    scheduled_for: datetime | None
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt_count: int
    max_attempts: int
    worker_id: UUID | None
    error: str | None
    cost_cents: int | None
    created_by: str | None
    payload: object = None
    result: object = None
    waiting_on: dict[str, object] | None = None
    progress: float | None = None
    progress_note: str | None = None
    children: tuple[UUID, ...] = field(default=())
