"""Append, read and drop lines of job output."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from windlass.db import Database, Session, Statement, partitions, statement
from windlass.model import LogLine

_READ = statement(__file__, "read")
_NOW = Statement("logs.now", "select clock_timestamp()")
_COLUMNS = ("tenant_id", "job_id", "attempt", "seq", "at", "level", "message", "fields")
_DROP_STRAYS = statement(__file__, "drop_strays")
_TABLE = "job_logs"
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
    """Make today's partition and the next ones; answers the names of those made. A day that cannot be had now, because
    somebody holds a lock, is made another time.
    """
    now: datetime = await database.value(_NOW)
    present = set(await partitions.names(database, _TABLE))
    made: list[str] = []
    for day in (now.date() + timedelta(days=n) for n in range(ahead + 1)):
        if _name(day) not in present:
            first, end = f"{day}T00:00:00Z", f"{day + timedelta(days=1)}T00:00:00Z"
            made += await partitions.attach(database, [partitions.Stretch(_TABLE, _name(day), "at", first, end)])
    return made


async def drop_old(database: Database, days: int = LOG_DAYS) -> list[str]:
    """Drop the days older than `days`, and what strayed from them; answers the names of those dropped."""
    now: datetime = await database.value(_NOW)
    dropped: list[str] = []
    for name in await partitions.names(database, _TABLE):
        if _day(name) + timedelta(days=1) <= now.date() - timedelta(days=days):
            async with database.transaction() as tx:
                dropped += [name] if await partitions.drop(tx, {_TABLE: name}) else []
    await database.rows(_DROP_STRAYS, now - timedelta(days=days))
    return dropped


def _name(day: date) -> str:
    return f"{_TABLE}_p{day:%Y%m%d}"


def _day(name: str) -> date:
    return datetime.strptime(name.rsplit("_p", 1)[1], "%Y%m%d").replace(tzinfo=UTC).date()
