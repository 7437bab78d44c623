"""Enqueue: a job comes to be, in the caller's transaction."""

from collections.abc import Sequence
from datetime import timedelta

from windlass.db import Row, Session, Tx, statement
from windlass.model import Enqueued, NewJob
from windlass.model.errors import InactiveDefinition, UnknownDefinition, UnknownTenant

_ENQUEUE = statement(__file__, "enqueue")
_ENQUEUE_ALIKE = statement(__file__, "enqueue_alike")
_ENQUEUE_CAREFULLY = statement(__file__, "enqueue_carefully")
_LOCK_KEYS = statement(__file__, "lock_keys")
_WHY_NOT = statement(__file__, "enqueue_why_not")
_CHUNK = 5000


async def enqueue(session: Session, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Store these jobs, all or none; answers in their order. One statement for up to a few thousand plain ones."""
    if not jobs:
        return []
    if isinstance(session, Tx):
        return await _in_order(session, jobs)
    if len(jobs) <= _CHUNK and all(job.plain for job in jobs):
        return await _plainly(session, jobs)
    async with session.transaction() as tx:
        return await _in_order(tx, jobs)


async def _in_order(tx: Tx, jobs: Sequence[NewJob]) -> list[Enqueued]:
    done: list[Enqueued] = []
    for start in range(0, len(jobs), _CHUNK):
        done += await _chunk(tx, jobs[start : start + _CHUNK])
    return done


async def _chunk(tx: Tx, jobs: Sequence[NewJob]) -> list[Enqueued]:
    plain = iter(await _plainly(tx, [job for job in jobs if job.plain]))
    careful = iter(await _carefully(tx, [job for job in jobs if not job.plain]))
    return [next(plain if job.plain else careful) for job in jobs]


async def _plainly(session: Session, jobs: Sequence[NewJob]) -> list[Enqueued]:
    if not jobs:
        return []
    rows = await (_alike(session, jobs) if _are_alike(jobs) else _different(session, jobs))
    if len(rows) < len(jobs):
        await _raise_why_not(session, jobs)
    return [Enqueued(row[0]) for row in rows]


def _are_alike(jobs: Sequence[NewJob]) -> bool:
    """Whether only their payloads differ, and they are due now."""
    first = jobs[0]
    if first.delay is not None or first.due_at is not None:
        return False
    wanted = first.alike
    return len(jobs) == 1 or all(job.alike == wanted for job in jobs)


async def _alike(session: Session, jobs: Sequence[NewJob]) -> list[Row]:
    one = jobs[0]
    return await session.rows(
        _ENQUEUE_ALIKE, one.key, one.tenant, [job.payload for job in jobs], one.priority, one.max_attempts,
        one.correlation_id, one.parent_id, one.source, one.source_ref, one.created_by,
    )  # fmt: skip


async def _different(session: Session, jobs: Sequence[NewJob]) -> list[Row]:
    return await session.rows(
        _ENQUEUE,
        [job.key for job in jobs],
        [job.tenant for job in jobs],
        [job.payload for job in jobs],
        [job.priority for job in jobs],
        [job.delay for job in jobs],
        [job.due_at for job in jobs],
        [job.max_attempts for job in jobs],
        [job.correlation_id for job in jobs],
        [job.parent_id for job in jobs],
        [job.source for job in jobs],
        [job.source_ref for job in jobs],
        [job.created_by for job in jobs],
    )


async def _carefully(tx: Tx, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """One by one, since a job may have the dedupe key of one before it."""
    done: list[Enqueued] = []
    keys = {f"{job.tenant}:{job.dedupe_key}" for job in jobs if job.dedupe_key is not None}
    if len(keys) > 1:
        await tx.rows(_LOCK_KEYS, list(keys))
    for job in jobs:
        window = None if job.dedupe_window is None else timedelta(seconds=job.dedupe_window)
        delay = None if job.delay is None else timedelta(seconds=job.delay)
        row = await tx.row(
            _ENQUEUE_CAREFULLY, job.key, job.payload, job.tenant, job.priority, delay, job.due_at, job.dedupe_key,
            window, job.correlation_id, list(job.depends_on), job.max_attempts, job.source, job.source_ref,
            job.parent_id, job.created_by,
        )  # fmt: skip
        assert row is not None
        done.append(Enqueued(row["id"], row["deduplicated"]))
    return done


async def _raise_why_not(session: Session, jobs: Sequence[NewJob]) -> None:
    """The statement stored nothing: say of the first job at fault what is wrong with it."""
    keys, tenants = {job.key for job in jobs}, {job.tenant for job in jobs}
    row = await session.row(_WHY_NOT, list(keys), list(tenants))
    assert row is not None
    if row["unknown_key"] is not None:
        raise UnknownDefinition(row["unknown_key"])
    if row["unknown_tenant"] is not None:
        raise UnknownTenant(row["unknown_tenant"])
    raise InactiveDefinition(row["inactive_key"] or jobs[0].key, "it is switched off, or gone from the code")
