"""Prune: history is partitioned by week, made ahead, and leaves by whole partitions.

A partition that still has a waiting or running job, or one that ended lately, is never dropped. The default partitions
catch what falls outside all others (a clock that jumped): nothing accepted is refused for want of a partition.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import structlog

from windlass.db import Database, Statement, Tx, partitions, statement

_log = structlog.get_logger("windlass.engine.prune")
_OLDEST_STRAY = statement(__file__, "oldest_stray")
_LIVE_BETWEEN = statement(__file__, "live_between")
_LONGEST_RETENTION = statement(__file__, "longest_retention")
_FORGET_WORKERS = statement(__file__, "forget_workers")
_FORGET_KEYS = statement(__file__, "forget_keys")
_NOW = Statement("engine.now", "select clock_timestamp()")
_WEEKS_AHEAD = 4
_TABLES = ("jobs", "attempts")
ATTEMPT_DAYS = 30


@dataclass(frozen=True, slots=True)
class Week:
    """Seven days of both history tables, from a Monday on."""

    begins: date

    @classmethod
    def of(cls, day: date) -> "Week":
        """The week that a day lies in."""
        return cls(day - timedelta(days=day.weekday()))

    @property
    def ends(self) -> date:
        """The first day after it."""
        return self.begins + timedelta(days=7)

    def name(self, table: str) -> str:
        """Its partition of a table, as PostgreSQL knows it."""
        return f"{table}_p{self.begins:%Y%m%d}"

    def stretch(self, table: str) -> partitions.Stretch:
        """Its partition of a table, to be made."""
        key = "id" if table == "jobs" else "job_id"
        return partitions.Stretch(table, self.name(table), key, _first_id(self.begins), _first_id(self.ends))


async def make_partitions(database: Database, ahead: int = _WEEKS_AHEAD) -> list[str]:
    """Make this week's partitions and the next ones; answers the names of those made. A week that cannot be had now,
    because somebody holds a lock, is made another time.
    """
    today: date = (await database.value(_NOW)).date()
    present = set(await partitions.names(database, *_TABLES))
    stray: datetime | None = await database.value(_OLDEST_STRAY)
    week, made = Week.of(min(today, stray.date()) if stray else today), list[str]()
    while week.begins <= today + timedelta(weeks=ahead):
        if not {week.name(table) for table in _TABLES} <= present:
            made += await partitions.attach(database, [week.stretch(table) for table in _TABLES])
        week = Week(week.ends)
    return made


async def drop_old(database: Database, days: int = ATTEMPT_DAYS) -> list[str]:
    """Drop the weeks in which no job lives, and none ended in the last `days`, or in as many as a definition wants kept;
    answers the names of what is gone.
    """
    days = max(days, await database.value(_LONGEST_RETENTION) or 0)
    now: datetime = await database.value(_NOW)
    kept_since = now - timedelta(days=days)
    dropped: list[str] = []
    for begins in sorted({_begins(name) for name in await partitions.names(database, *_TABLES)}):
        week = Week(begins)
        if week.ends <= kept_since.date() and not await _is_needed(database, week, kept_since):
            dropped += await _drop(database, week, kept_since)
    return dropped


async def forget(database: Database) -> None:
    """Delete what the small tables need no more: workers that ended, dedupe keys whose window has passed."""
    await database.rows(_FORGET_WORKERS)
    await database.rows(_FORGET_KEYS)


async def _is_needed(session: Database | Tx, week: Week, kept_since: datetime) -> bool:
    return await session.value(_LIVE_BETWEEN, _first_id(week.begins), _first_id(week.ends), kept_since)


async def _drop(database: Database, week: Week, kept_since: datetime) -> list[str]:
    """Both tables' week or neither. Retries are kept out of it before the last look, which is slow; all others only while
    it goes.
    """
    present = set(await partitions.names(database, *_TABLES))
    doomed = {table: week.name(table) for table in _TABLES if week.name(table) in present}
    async with database.transaction() as tx:
        if not await partitions.locked(tx, *((name, "exclusive") for name in doomed.values())):
            _log.info("an old week stays for now: somebody uses it", week=str(week.begins))
            return []
        if await _is_needed(tx, week, kept_since):
            return []
        if not await partitions.drop(tx, doomed):
            _log.info("an old week stays for now: somebody uses the table", week=str(week.begins))
            return []
    return list(doomed.values())


def _begins(name: str) -> date:
    return datetime.strptime(name.rsplit("_p", 1)[1], "%Y%m%d").replace(tzinfo=UTC).date()


def _first_id(day: date) -> str:
    """The smallest id made on this day (as windlass.uuid7_from)."""
    milliseconds = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"
