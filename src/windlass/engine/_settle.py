"""Settle: what happened is written once, by whoever still holds the lease."""

import time
from collections.abc import Sequence
from operator import attrgetter
from uuid import UUID

from windlass.db import Session, statement
from windlass.model import Settled

_SETTLE = statement(__file__, "settle")
_SETTLE_SUCCEEDED = statement(__file__, "settle_succeeded")
_BY_LEASE = attrgetter("lease")


async def settle(session: Session, worker_id: UUID, batch: Sequence[Settled]) -> set[int]:
    """Write these ends of a worker's attempts; answers the lease numbers that were still held. The others were lost: nothing of
    theirs was written, for somebody else has the job now.
    """
    ascending = sorted(batch, key=_BY_LEASE)
    lean = [one for one in ascending if one.lean]
    rest = [one for one in ascending if not one.lean]
    held: set[int] = set()
    if lean:
        held |= await _settle_succeeded(session, worker_id, lean)
    if rest:
        held |= await _settle_any(session, worker_id, rest)
    return held


async def _settle_succeeded(session: Session, worker_id: UUID, batch: Sequence[Settled]) -> set[int]:
    now = time.monotonic()
    numbers = await session.value(
        _SETTLE_SUCCEEDED,
        [one.job_id for one in batch],
        [one.lease for one in batch],
        [one.result for one in batch],
        [one.ran_ms for one in batch],
        [(now - one.ended) * 1000 for one in batch],
        worker_id,
    )
    return set(numbers or ())


async def _settle_any(session: Session, worker_id: UUID, batch: Sequence[Settled]) -> set[int]:
    now = time.monotonic()
    numbers = await session.value(
        _SETTLE,
        [one.job_id for one in batch],
        [one.lease for one in batch],
        [one.status for one in batch],
        [one.state for one in batch],
        [one.result for one in batch],
        [one.error for one in batch],
        [one.retry_after or 0.0 for one in batch],
        [one.spends_attempt for one in batch],
        [one.ran_ms for one in batch],
        [(now - one.ended) * 1000 for one in batch],
        [one.exit_code for one in batch],
        [one.cost_cents for one in batch],
        [one.stdout_tail for one in batch],
        [one.stderr_tail for one in batch],
        worker_id,
    )
    return set(numbers or ())
