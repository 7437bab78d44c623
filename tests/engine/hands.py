"""Workers as the engine sees them: something that claims and settles, without a loop around it."""

import asyncio
import time
from dataclasses import dataclass
from uuid import UUID

from windlass import engine
from windlass.db import Database
from windlass.model import AttemptStatus, ClaimedJob, Held, JobState, Settled


@dataclass
class Hand:
    """A worker's hand on one queue."""

    db: Database
    id: UUID
    claims: engine.Claim

    async def claim(self, want: int = 1, definitions=None) -> list[ClaimedJob]:
        """As a worker does it: on a busy machine the head may seem slow, and then is looked at only after a rest."""
        jobs = await self.claims.take(self.db, want, definitions)
        while not jobs and (rest := self.claims.rest()) > 0:
            await asyncio.sleep(rest)
            jobs = await self.claims.take(self.db, want, definitions)
        return jobs

    async def settle(self, *jobs: ClaimedJob, **told) -> set[int]:
        return await engine.settle(self.db, self.id, [end_of(job, **told) for job in jobs])

    async def release(self, *jobs: ClaimedJob) -> None:
        await engine.release(self.db, self.id, [held(job) for job in jobs])


def end_of(job: ClaimedJob, *, status=AttemptStatus.SUCCEEDED, state=JobState.SUCCEEDED, **told) -> Settled:
    return Settled(job.id, job.lease, status, state, ended=time.monotonic(), **told)


def failed(job: ClaimedJob, retry_after: float = 0.0, **told) -> Settled:
    return end_of(job, status=AttemptStatus.FAILED, state=None, retry_after=retry_after, error="no", **told)


def held(job: ClaimedJob) -> Held:
    return Held(job.id, job.lease)
