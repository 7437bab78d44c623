"""THE queue: enqueue, claim, extend, settle, cancel, release, rescue, retry, prune, and the reads.

    enqueue ─▶ jobs              asked once, never updated
            └▶ queue | parked    waits: for a worker, or for its time, other jobs, a limit
    claim   ─▶ leases            runs; fenced by the lease's number
    settle  ─▶ attempts          happened; the row with a `state` is the end

Invariants: a job is in exactly one of queue, parked, leases, or a final row of attempts, and every statement
moves it whole. Every write about a running job names its lease number. Time is the database's. This room owns
its tables and never knows about workers' code, HTTP, or people.
"""

from windlass.engine import prune, reads, registry, workers
from windlass.engine._claim import LEASE_SECONDS, Claim
from windlass.engine._control import Canceled, cancel, retry
from windlass.engine._due import Due, recheck_blocked
from windlass.engine._enqueue import enqueue
from windlass.engine._grouping import Grouping
from windlass.engine._lease import Rescued, extend, progress, release, rescue
from windlass.engine._settle import settle

__all__ = [
    "LEASE_SECONDS",
    "Canceled",
    "Claim",
    "Due",
    "Grouping",
    "Rescued",
    "cancel",
    "enqueue",
    "extend",
    "progress",
    "prune",
    "reads",
    "recheck_blocked",
    "registry",
    "release",
    "rescue",
    "retry",
    "settle",
    "workers",
]
