"""Control: people cancel what waits or runs, and retry what ended."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from windlass.db import Database, statement

_CANCEL_WAITING = statement(__file__, "cancel_waiting")
_CANCEL_RUNNING = statement(__file__, "cancel_running")
_RETRY = statement(__file__, "retry")
_LOOKS = 5


class Canceled(NamedTuple):
    """What became of a request to cancel: ended now, asked to stop, or neither (ended before, or unknown)."""

    ended: frozenset[UUID]
    asked: frozenset[UUID]


async def cancel(database: Database, tenant_id: UUID, ids: Sequence[UUID], reason: str) -> Canceled:
    """Cancel these jobs of a tenant. A job can slip from waiting to running, or back, between two looks:
    so look again while any is in neither place and a look found something to do.
    """
    ended: set[UUID] = set()
    asked: set[UUID] = set()
    for _ in range(_LOOKS):
        left = [i for i in ids if i not in ended and i not in asked]
        if not left:
            break
        ended |= {row["id"] for row in await database.rows(_CANCEL_WAITING, tenant_id, left, reason)}
        left = [i for i in left if i not in ended]
        asked |= {row["job_id"] for row in await database.rows(_CANCEL_RUNNING, tenant_id, left, reason)}
    return Canceled(frozenset(ended), frozenset(asked))


async def retry(database: Database, tenant_id: UUID, ids: Sequence[UUID]) -> frozenset[UUID]:
    """Run jobs again that ended, with a fresh budget of attempts; answers those it took back."""
    return frozenset({row["id"] for row in await database.rows(_RETRY, tenant_id, list(ids))})
