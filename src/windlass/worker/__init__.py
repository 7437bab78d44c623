"""Claim → run → settle: what turns waiting jobs into ended ones. Knows the Transport, never the database.

Invariants: what is claimed is settled, given back, or its lease runs out; ends are written in batches and never
dropped; a lost lease means that nothing more of the job is written; a job is `canceled` or timed out only when
its code has really stopped.
"""

from windlass.worker._voice import JobLogHandler
from windlass.worker._worker import Worker, WorkerOptions
from windlass.worker.context import JobContext, current_job
from windlass.worker.handlers import Handler, Handlers

__all__ = ["Handler", "Handlers", "JobContext", "JobLogHandler", "Worker", "WorkerOptions", "current_job"]
