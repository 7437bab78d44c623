"""Pure words of the trade: states, outcomes, policies, definitions, jobs, errors. Standard library and orjson only.

What lives here is shared by two rooms or more, does no I/O, reads no clock and draws no random numbers.
"""

from windlass.model import backoff, errors
from windlass.model.backoff import Backoff
from windlass.model.definitions import Definition, EffectiveDefinition
from windlass.model.jobs import (
    AttemptView,
    ClaimedJob,
    Enqueued,
    Held,
    JobView,
    LogLine,
    NewJob,
    Settled,
    WorkerInfo,
)
from windlass.model.outcomes import Cancel, Done, Fail, Outcome, Retry, Snooze
from windlass.model.states import AttemptStatus, JobState
from windlass.model.verdict import Verdict, verdict

__all__ = [
    "AttemptStatus",
    "AttemptView",
    "Backoff",
    "Cancel",
    "ClaimedJob",
    "Definition",
    "Done",
    "EffectiveDefinition",
    "Enqueued",
    "Fail",
    "Held",
    "JobState",
    "JobView",
    "LogLine",
    "NewJob",
    "Outcome",
    "Retry",
    "Settled",
    "Snooze",
    "Verdict",
    "WorkerInfo",
    "backoff",
    "errors",
    "verdict",
]
