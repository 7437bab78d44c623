"""What a job and an attempt can be, and how a job may move (DESIGN §3)."""

from enum import StrEnum


class JobState(StrEnum):
    """Where a job is; the last four are ends."""

    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    DEAD_LETTER = "dead_letter"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself."""
        return self in ENDS


class AttemptStatus(StrEnum):
    """How one try went."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELED = "canceled"
    LOST = "lost"


ENDS = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED, JobState.DEAD_LETTER})
WAITING_STATES = frozenset({JobState.SCHEDULED, JobState.BLOCKED, JobState.WAITING, JobState.QUEUED})

# The only moves there are. From an end, only a retry by hand leads on.
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.SCHEDULED: frozenset({JobState.QUEUED, JobState.CANCELED}),
    JobState.BLOCKED: frozenset({JobState.QUEUED, JobState.SCHEDULED, JobState.CANCELED}),
    JobState.WAITING: frozenset({JobState.QUEUED, JobState.CANCELED}),
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.WAITING, JobState.CANCELED}),
    JobState.RUNNING: ENDS | {JobState.QUEUED, JobState.SCHEDULED},
    JobState.SUCCEEDED: frozenset({JobState.QUEUED}),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.CANCELED: frozenset({JobState.QUEUED}),
    JobState.DEAD_LETTER: frozenset({JobState.QUEUED}),
}
