"""A job in a worker's hands, from claim to settle."""

import asyncio
import time
from dataclasses import dataclass
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
    """A held job. The moments are on the worker's monotonic clock; `began` is 0 until its task takes its first step."""

    job: ClaimedJob
    prepared: Prepared
    taken: float
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
    line_size: int = 0
    truncated: bool = False
    exit_code: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None

    def begin(self) -> None:
        """Its time runs from now on."""
        self.began = time.monotonic()
        timeout = self.prepared.definition.timeout_seconds
        if timeout is not None:
            self.deadline = self.began + timeout

    @property
    def held(self) -> Held:
        """The lease, as the queue knows it."""
        return Held(self.job.id, self.job.lease)
