"""The shortest way for a single plain job: what its definition and tenant say is remembered, and checked as it is used."""

from typing import NamedTuple
from uuid import UUID

from windlass.db import Database, Row, statement
from windlass.engine._enqueue import enqueue
from windlass.model import Enqueued, NewJob

_KNOWN = statement(__file__, "known")
_ENQUEUE_KNOWN = statement(__file__, "enqueue_known")
_MOST = 10_000


class _Known(NamedTuple):
    """What jobs of one definition and tenant have in common, in known.sql's order."""

    definition_id: UUID
    version: int
    tenant_id: UUID
    queue_id: int
    priority: int
    max_attempts: int


class Shortcut:
    """Remembers; one for each place that enqueues again and again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Known] = {}

    async def enqueue(self, database: Database, job: NewJob) -> Enqueued:
        """Store one job; anything out of the ordinary goes the ordinary way, which says what is wrong with it."""
        if job.plain and job.delay is None and job.due_at is None:
            known = self._known.get((job.key, job.tenant))
            rows = await _store(database, job, known) if known else None
            if rows:
                return Enqueued(rows[0][0])
            await self._look_up(database, job)
        return (await enqueue(database, [job]))[0]

    async def _look_up(self, database: Database, job: NewJob) -> None:
        """For the next time."""
        if len(self._known) >= _MOST:
            self._known.clear()
        row = await database.row(_KNOWN, job.key, job.tenant)
        if row is not None:
            self._known[job.key, job.tenant] = _Known(*row)


async def _store(database: Database, job: NewJob, known: _Known) -> list[Row]:
    return await database.rows(
        _ENQUEUE_KNOWN, known.definition_id, known.version, known.tenant_id, known.queue_id,
        known.priority if job.priority is None else job.priority,
        known.max_attempts if job.max_attempts is None else job.max_attempts,
        job.payload, job.correlation_id, job.parent_id, job.source, job.source_ref, job.created_by,
    )  # fmt: skip
