"""Claim: a worker takes jobs that wait, tenant by tenant in fair turns."""

import time
from collections.abc import Sequence
from uuid import UUID

from windlass.db import Session, statement
from windlass.engine._turns import HEAD, Page, Turns
from windlass.model import ClaimedJob

_CLAIM = statement(__file__, "claim")
_DISCOVER = statement(__file__, "discover")
_PAGE = 1000
LEASE_SECONDS = 30.0


class Claim:
    """One worker's way of claiming from one queue; it remembers turns and positions between claims."""

    def __init__(self, queue_id: int, worker_id: UUID, lease_seconds: float = LEASE_SECONDS) -> None:
        self.queue_id = queue_id
        self._worker_id = worker_id
        self._lease = lease_seconds
        self._turns = Turns()
        self._found = False

    async def take(self, session: Session, want: int, definitions: Sequence[UUID] | None) -> list[ClaimedJob]:
        """Up to `want` jobs. None means that there is nothing to claim now, or only what is claimed elsewhere."""
        looked = self._turns.knows_none or (self._found and self._turns.must_discover(time.monotonic()))
        if looked:
            await self._discover(session)
        # Woken from rest, try those who had work last before looking who has: most often it is one of them again.
        rows = await self._take(session, want, definitions)
        if not rows and not looked and await self._discover(session):
            rows = await self._take(session, want, definitions)
        self._found = bool(rows)
        return rows

    def rest(self) -> float:
        """How long to rest at most after a claim that found nothing."""
        return self._turns.may_rest(time.monotonic())

    async def _take(self, session: Session, want: int, definitions: Sequence[UUID] | None) -> list[ClaimedJob]:
        began = time.monotonic()
        plan = self._turns.plan(want, began)
        if not plan.tenants:
            return []
        found = await session.rows(
            _CLAIM, self.queue_id, plan.tenants, plan.priorities, plan.job_ids, plan.shares, want,
            self._worker_id, self._lease, definitions,
        )  # fmt: skip
        rows = [ClaimedJob(*row) for row in found]
        now = time.monotonic()
        self._turns.claimed(plan, want, rows, now, now - began)
        return rows

    async def _discover(self, session: Session) -> bool:
        """Look which tenants have work, a page of them at a time, and at the first when there are no more."""
        for after in dict.fromkeys((self._turns.look_after, HEAD[1])):
            began = time.monotonic()
            found = await session.rows(_DISCOVER, self.queue_id, after, _PAGE)
            now = time.monotonic()
            self._turns.discovered(Page(after, [(row[0], row[1]) for row in found], full=len(found) == _PAGE), now, now - began)
            if found:
                return True
        return False
