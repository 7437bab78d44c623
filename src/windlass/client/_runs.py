"""Jobs that were asked for, looked at and steered: what a handle needs of `app.jobs`."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from windlass import engine, logs
from windlass.db import Database
from windlass.model import AttemptView, JobState, JobView, LogLine
from windlass.model.errors import Conflict, UnknownJob, UsageError


class Runs:
    """Without a tenant a job is looked for among all: this is the operator's own code."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, job_id: UUID | str, *, tenant: str | None = None) -> JobView:
        """One job; raises UnknownJob."""
        job_id = _uuid(job_id)
        return await engine.reads.job(self._database, await self._tenant(tenant, job_id), job_id)

    async def list(
        self,
        *,
        tenant: str = "default",
        status: JobState | str | Sequence[JobState | str] | None = None,
        definition_key: str | None = None,
        correlation_id: str | None = None,
        source: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = 50,
        before: UUID | None = None,
    ) -> list[JobView]:
        """A tenant's jobs, newest first; the next page is `before=` the last one's id."""
        wanted = engine.reads.Filter(
            _states(status),
            definition_key, correlation_id, source, created_after, created_before,
        )  # fmt: skip
        return await engine.reads.jobs(self._database, await self._tenant(tenant), wanted, limit, before)

    list_runs = list  # noqa: A003 - the method, by the name it has in a web API

    async def attempts(self, job_id: UUID | str, *, tenant: str | None = None) -> "list[AttemptView]":
        """The tries of a job."""
        job_id = _uuid(job_id)
        return await engine.reads.attempts(self._database, await self._tenant(tenant, job_id), job_id)

    async def list_logs(
        self, job_id: UUID | str, *, tenant: str | None = None, after: tuple[int, int] = (0, -1), limit: int = 1000
    ) -> "list[LogLine]":
        """What a job said, from after `(attempt, seq)` on."""
        job_id = _uuid(job_id)
        return await logs.read(self._database, await self._tenant(tenant, job_id), job_id, after, limit)

    async def counts(self, *, tenant: str | None = None) -> dict[JobState, int]:
        """How many jobs wait or run, by state."""
        return await engine.reads.counts(self._database, await self._tenant(tenant) if tenant else None)

    async def outcome(self, job_id: UUID | str, *, tenant: str | None = None) -> tuple[JobState, object, str | None] | None:
        """How a job ended: state, result, error; None while it has not."""
        job_id = _uuid(job_id)
        return await engine.reads.outcome(self._database, await self._tenant(tenant, job_id), job_id)

    async def cancel(self, job_id: UUID | str, reason: str = "", *, tenant: str | None = None) -> JobState:
        """Cancel a job: one that waits ends now, one that runs is asked to stop. Raises Conflict if it ended."""
        job_id = _uuid(job_id)
        owner = await self._tenant(tenant, job_id)
        became = await engine.cancel(self._database, owner, [job_id], reason or "canceled by hand")
        if job_id in became.ended:
            return JobState.CANCELED
        if job_id in became.asked:
            return JobState.RUNNING
        view = await engine.reads.job(self._database, owner, job_id)
        msg = f"Job {job_id} is {view.status}: only a job that has not ended can be canceled."
        raise Conflict(msg, view.status)

    async def retry(self, job_id: UUID | str, *, tenant: str | None = None) -> JobState:
        """Run a job again that ended, with a fresh budget of attempts. Raises Conflict if it has not ended."""
        job_id = _uuid(job_id)
        owner = await self._tenant(tenant, job_id)
        if job_id in await engine.retry(self._database, owner, [job_id]):
            return JobState.QUEUED
        view = await engine.reads.job(self._database, owner, job_id)
        msg = f"Job {job_id} is {view.status}: only a job that has ended can be retried."
        raise Conflict(msg, view.status)

    async def _tenant(self, tenant: str | None, job_id: UUID | None = None) -> UUID:
        if tenant is not None:
            return await engine.reads.tenant_id(self._database, tenant)
        if job_id is None:
            raise UnknownJob(job_id)
        return await engine.reads.tenant_of(self._database, job_id)


def _uuid(job_id: UUID | str) -> UUID:
    if isinstance(job_id, UUID):
        return job_id
    try:
        return UUID(job_id)
    except ValueError:
        raise UnknownJob(job_id) from None


def _states(told: JobState | str | Sequence[JobState | str] | None) -> list[JobState] | None:
    try:
        return [JobState(state) for state in ([told] if isinstance(told, str) else told)] if told else None
    except ValueError as problem:
        msg = f"{problem}. There are: {', '.join(JobState)}."
        raise UsageError(msg) from problem
