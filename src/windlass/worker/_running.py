"""A job in a worker's hands, from claim to settle."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum

from windlass.model import ClaimedJob, EffectiveDefinition, Held
from windlass.worker.handlers import Handler


class Stop(Enum):
    """Why the worker makes a running job stop."""

    TIMEOUT = "timeout"
    CANCELED = "canceled"
    LOST = "lost"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A handler with its definition as it counts now."""

    handler: Handler
    definition: EffectiveDefinition


@dataclass(slots=True, eq=False)
class Running:
    """A held job. `renew_at` and `deadline` are on the worker's monotonic clock."""

    job: ClaimedJob
    prepared: Prepared
    renew_at: float
    began: float = 0.0
    deadline: float | None = None
    task: asyncio.Task[None] | None = None
    stop: Stop | None = None
    reason: str = ""
    nudges: int = 0
    deadline_of_patience: float = 0.0
    cost_cents: int | None = None
    lines: int = 0
    line_bytes: int = 0
    seq: int = 0
    exit_code: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None
    told: set[str] = field(default_factory=set[str])

    @property
    def held(self) -> Held:
        """The lease, as the queue knows it."""
        return Held(self.job.id, self.job.lease)
