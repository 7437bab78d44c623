"""What people and programs see of jobs. Reads only; never on the hot path."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from windlass.db import Row, Session, statement
from windlass.model import AttemptStatus, AttemptView, JobState, JobView
from windlass.model.errors import UnknownJob, UnknownTenant

_JOB = statement(__file__, "job")
_JOBS = statement(__file__, "jobs")
_ATTEMPTS = statement(__file__, "attempts")
_CONTENTS = statement(__file__, "contents")
_COUNTS = statement(__file__, "counts")
_OUTCOME = statement(__file__, "outcome")
_TENANT = statement(__file__, "tenant")
_TENANT_SLUG = statement(__file__, "tenant_slug")
_TENANT_OF = statement(__file__, "tenant_of")
_RARE = frozenset(JobState) - {JobState.SUCCEEDED, JobState.QUEUED}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs to list."""

    states: Sequence[JobState] | None = None
    definition_key: str | None = None
    correlation_id: str | None = None
    source: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    words: str | None = None


async def tenant_id(session: Session, tenant: str) -> UUID:
    """The id of the tenant with this slug or id; raises UnknownTenant."""
    found = await session.value(_TENANT, tenant)
    if found is None:
        raise UnknownTenant(tenant)
    return found


async def tenant_slug(session: Session, tenant_id: UUID) -> str:
    """The slug of a tenant."""
    return await session.value(_TENANT_SLUG, tenant_id)


async def tenant_of(session: Session, job_id: UUID) -> UUID:
    """Whose job this is: for platform people only, since everyone else has a tenant."""
    found = await session.value(_TENANT_OF, job_id)
    if found is None:
        raise UnknownJob(job_id)
    return found


async def job(session: Session, tenant: UUID, job_id: UUID) -> JobView:
    """One job of a tenant; raises UnknownJob for another's too. A job on its way from one place to the next
    is in neither for the eye of one statement, so a look that finds it nowhere is repeated.
    """
    for _ in range(10):
        row = await session.row(_JOB, tenant, job_id)
        if row is None:
            raise UnknownJob(job_id)
        if row["status"] is not None:
            return _view(row)
    raise UnknownJob(job_id)


async def jobs(
    session: Session, tenant: UUID, which: Filter, limit: int, before: UUID | None = None, offset: int = 0
) -> list[JobView]:
    """A page of a tenant's jobs, newest first: those older than `before`, but the first `offset` of them."""
    states = [str(state) for state in which.states] if which.states else None
    rare = bool(which.states) and set(which.states or ()) <= _RARE
    rows = await session.rows(
        _JOBS, tenant, states, which.definition_key, which.correlation_id, which.source, before,
        which.created_after, which.created_before, limit, rare, _pattern(which.words), offset,
    )  # fmt: skip
    return [_view(row) for row in rows]


async def contents(session: Session, tenant: UUID, ids: Sequence[UUID]) -> dict[UUID, tuple[object, object]]:
    """What went into these jobs and came out of them."""
    rows = await session.rows(_CONTENTS, tenant, ids)
    return {row["id"]: (_json(row["payload"]), _json(row["result"])) for row in rows}


async def attempts(session: Session, tenant: UUID, job_id: UUID) -> list[AttemptView]:
    """The tries of a job, the one in progress last."""
    rows = await session.rows(_ATTEMPTS, tenant, job_id)
    return [_attempt(dict(row)) for row in rows]


async def counts(session: Session, tenant: UUID | None = None) -> dict[JobState, int]:
    """How many jobs wait or run, by state; history is never counted."""
    return {JobState(row[0]): row[1] for row in await session.rows(_COUNTS, tenant)}


async def outcome(session: Session, tenant: UUID, job_id: UUID) -> tuple[JobState, object, str | None] | None:
    """How a job ended: state, result, error. None while it has not."""
    row = await session.row(_OUTCOME, tenant, job_id)
    return None if row is None else (JobState(row["state"]), _json(row["result"]), row["error"])


def _attempt(told: dict[str, Any]) -> AttemptView:
    told["status"] = AttemptStatus(told["status"])
    return AttemptView(**told)


def _view(row: Row) -> JobView:
    told: dict[str, Any] = dict(row)
    waits_for = told.pop("depends_on", None)
    for extra in ("definition_id", "queue_id", "cancel_reason"):
        told.pop(extra, None)
    told["status"] = JobState(told["status"])
    told["payload"] = _json(told.get("payload"))
    told["result"] = _json(told.get("result"))
    told["children"] = tuple(told.get("children") or ())
    if told["status"] is JobState.BLOCKED and waits_for:
        told["waiting_on"] = _waits_for_jobs(waits_for)
    return JobView(**told)


def _waits_for_jobs(ids: Sequence[UUID]) -> dict[str, object]:
    named = ", ".join(str(i) for i in ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")  # noqa: PLR2004
    return {"kind": "job", "key": str(ids[0]), "used": None, "allowed": None, "position": None,
            "text": f"waits for {len(ids)} job(s) to succeed: {named}"}  # fmt: skip


def _pattern(words: str | None) -> str | None:
    """A LIKE pattern for text that has these words in it as they are."""
    if words is None:
        return None
    return "%" + words.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") + "%"


def _json(text: str | None) -> object:
    """The value; or the text itself where PostgreSQL took more than can be read here (a thousand levels, 1e400)."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
