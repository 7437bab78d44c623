"""Append, read and drop lines of job output."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from windlass.db import Database, Session, Statement, statement
from windlass.model import LogLine
from windlass.model.errors import Disconnected, WindlassError

_READ = statement(__file__, "read")
_DAYS = statement(__file__, "days")
_LOCK = Statement("logs.partition_lock", "select pg_advisory_xact_lock(7743012203)")
_NOW = Statement("logs.now", "select clock_timestamp()")
_COLUMNS = ("tenant_id", "job_id", "attempt", "seq", "at", "level", "message", "fields")
_LEVELS = ("debug", "info", "warning", "error")
_DAYS_AHEAD = 3
LOG_DAYS = 7


async def append(session: Session, lines: Sequence[LogLine]) -> None:
    """Append a batch."""
    records = [(n.tenant_id, n.job_id, n.attempt, n.seq, n.at, n.level, n.message, n.fields) for n in lines]
    await session.copy("job_logs", _COLUMNS, records)


async def read(
    session: Session, tenant: UUID, job_id: UUID, after: tuple[int, int] = (0, -1), limit: int = 1000, *,
    level: str | None = None, text: str | None = None,
) -> list[LogLine]:  # fmt: skip
    """A job's lines in order, from after `(attempt, seq)` on; only of a level or worse, and with a text in them."""
    levels = None if level is None else list(_LEVELS[_LEVELS.index(level) :])
    rows = await session.rows(_READ, tenant, job_id, after[0], after[1], limit, levels, text)
    return [LogLine(*row) for row in rows]


async def make_partitions(database: Database, ahead: int = _DAYS_AHEAD) -> list[str]:
    """Make today's partition and the next ones; answers the names of those made."""
    now: datetime = await database.value(_NOW)
    wanted = {_name(day): day for day in (now.date() + timedelta(days=n) for n in range(ahead + 1))}
    if wanted.keys() <= {row["name"] for row in await database.rows(_DAYS)}:
        return []
    async with database.transaction() as tx:
        await tx.value(_LOCK)
        present = {row["name"] for row in await tx.rows(_DAYS)}
        missing = {name: day for name, day in wanted.items() if name not in present}
        for name, day in missing.items():
            await tx.script(
                f"create table windlass.{name} partition of windlass.job_logs "
                f"for values from ('{day}T00:00:00Z') to ('{day + timedelta(days=1)}T00:00:00Z')"
            )
    return list(missing)


async def drop_old(database: Database, days: int = LOG_DAYS) -> list[str]:
    """Drop the days older than `days`; answers the names of those dropped."""
    now: datetime = await database.value(_NOW)
    dropped: list[str] = []
    for row in await database.rows(_DAYS):
        if _day(row["name"]) + timedelta(days=1) <= now.date() - timedelta(days=days):
            dropped += await _drop(database, row["name"])
    return dropped


async def _drop(database: Database, name: str) -> list[str]:
    try:
        async with database.transaction() as tx:
            await tx.script(f"set local lock_timeout = '300ms'; drop table windlass.{name}")
    except Disconnected:
        raise
    except WindlassError:
        return []  # somebody reads it just now: next time
    return [name]


def _name(day: date) -> str:
    return f"job_logs_p{day:%Y%m%d}"


def _day(name: str) -> date:
    return datetime.strptime(name.rsplit("_p", 1)[1], "%Y%m%d").replace(tzinfo=UTC).date()
