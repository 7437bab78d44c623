"""Leases: renewed while their worker lives, given back, taken back when it does not."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from windlass.db import Database, Session, statement
from windlass.engine._claim import LEASE_SECONDS
from windlass.model import Held

_EXTEND = statement(__file__, "extend")
_RELEASE = statement(__file__, "release")
_PROGRESS = statement(__file__, "progress")
_FIND_SILENT = statement(__file__, "find_silent")
_RESCUE = statement(__file__, "rescue")
_BY_LEASE = attrgetter("lease")
_BATCH = 500
JITTER_SECONDS = 2.0


class Rescued(NamedTuple):
    """What a rescue found: leases that were lost, and how many of their jobs ended by that; what the database's clock
    showed, and whether silence counted then.
    """

    lost: int = 0
    ended: int = 0
    silent: tuple[str, ...] = ()
    any_dead: bool = False
    clock: datetime | None = None
    counted: bool = True


async def extend(session: Session, worker_id: UUID, held: Sequence[Held], lease_seconds: float = LEASE_SECONDS) -> set[int]:
    """Renew these leases of a worker; answers the numbers of those still held."""
    ascending = sorted(held, key=_BY_LEASE)
    rows = await session.rows(_EXTEND, [h.job_id for h in ascending], [h.lease for h in ascending], lease_seconds, worker_id)
    return {row[0] for row in rows}


async def release(session: Session, worker_id: UUID, held: Sequence[Held]) -> None:
    """Give jobs back that were not started; their attempt is not spent."""
    ascending = sorted(held, key=_BY_LEASE)
    await session.row(_RELEASE, [h.job_id for h in ascending], [h.lease for h in ascending], worker_id)


async def progress(session: Session, worker_id: UUID, said: Sequence[tuple[Held, float, str | None]]) -> None:
    """Note how far jobs say they are."""
    ascending = sorted(said, key=lambda one: one[0].lease)
    await session.rows(
        _PROGRESS,
        [held.job_id for held, _, _ in ascending],
        [held.lease for held, _, _ in ascending],
        [fraction for _, fraction, _ in ascending],
        [note for _, _, note in ascending],
        worker_id,
    )


async def rescue(
    database: Database, *, sweep: bool = False, lease_seconds: float = LEASE_SECONDS, until: datetime | None = None
) -> Rescued:
    """Take back the jobs of workers that fell silent. The leases are looked at only when some worker died
    lately, or on a `sweep`, since looking through all of them is slow while a snapshot is held open.
    Silence counts only while the database's clock has not passed `until`.
    """
    found = await database.row(_FIND_SILENT, lease_seconds, until)
    assert found is not None
    silent, clock, counts = tuple(found["silent"] or ()), found["clock"], found["counts"]
    if not counts or not (found["any_dead"] or sweep):
        return Rescued(clock=clock, counted=counts)
    lost, ended = await _rescue_all(database, None, JITTER_SECONDS)
    return Rescued(lost, ended, silent, found["any_dead"], clock)


async def rescue_worker(database: Database, worker_id: UUID) -> Rescued:
    """Take back at once all that a worker held which is known to be dead."""
    lost, ended = await _rescue_all(database, worker_id, 0.0)
    return Rescued(lost, ended)


async def _rescue_all(database: Database, worker_id: UUID | None, jitter: float) -> tuple[int, int]:
    lost = ended = 0
    while True:
        row = await database.row(_RESCUE, _BATCH, jitter, worker_id)
        assert row is not None
        lost, ended = lost + row["lost"], ended + row["ended"]
        if row["lost"] < _BATCH:
            return lost, ended
