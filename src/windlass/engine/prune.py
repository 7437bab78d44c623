"""Prune: history is partitioned by week, made ahead, and leaves by whole partitions.

A partition that still has a waiting or running job is never dropped. The default partitions catch what falls
outside all others (a clock that jumped): nothing accepted is refused for want of a partition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from windlass.db import Database, Statement, Tx, statement
from windlass.model.errors import Disconnected, WindlassError

_PARTITIONS = statement(__file__, "partitions")
_LIVE_BETWEEN = statement(__file__, "live_between")
_FORGET_WORKERS = statement(__file__, "forget_workers")
_FORGET_KEYS = statement(__file__, "forget_keys")
_LOCK = Statement("engine.partition_lock", "select pg_advisory_xact_lock(7743012202)")
_NOW = Statement("engine.now", "select clock_timestamp()")
_WEEKS_AHEAD = 4
_PATIENCE = "set local lock_timeout = '300ms'"
ATTEMPT_DAYS = 30
# Made beside the table and attached, which does not stop those who use it; what has strayed into the default
# partition (it was missing when its week began) moves over, or the week could never be made.
_MAKE = """
create table windlass.{name} (like windlass.{table} including defaults including constraints including indexes);
with strays as (
  delete from windlass.{table}_default where {key} >= '{first}' and {key} < '{end}' returning *
)
insert into windlass.{name} select * from strays;
alter table windlass.{table} attach partition windlass.{name} for values from ('{first}') to ('{end}')
"""


@dataclass(frozen=True, slots=True)
class Partition:
    """A week of a history table."""

    table: str
    begins: date

    @property
    def name(self) -> str:
        """As PostgreSQL knows it."""
        return f"{self.table}_p{self.begins:%Y%m%d}"

    @property
    def key(self) -> str:
        """The column that decides which week a row is of."""
        return "id" if self.table == "jobs" else "job_id"

    @property
    def ends(self) -> date:
        """The first day after it."""
        return self.begins + timedelta(days=7)


async def make_partitions(database: Database, ahead: int = _WEEKS_AHEAD) -> list[str]:
    """Make this week's partitions and the next ones; answers the names of those made."""
    now: datetime = await database.value(_NOW)
    monday = now.date() - timedelta(days=now.weekday())
    wanted = [Partition(t, monday + timedelta(weeks=w)) for w in range(ahead + 1) for t in ("jobs", "attempts")]
    present = {row["name"] for row in await database.rows(_PARTITIONS)}
    missing = [p for p in wanted if p.name not in present]
    if not missing:
        return []
    async with database.transaction() as tx:
        await tx.value(_LOCK)
        present = {row["name"] for row in await tx.rows(_PARTITIONS)}
        return await _make(tx, [p for p in missing if p.name not in present])


async def drop_old(database: Database, days: int = ATTEMPT_DAYS) -> list[str]:
    """Drop the weeks that ended more than `days` ago and have no live job; answers their names."""
    now: datetime = await database.value(_NOW)
    last = now.date() - timedelta(days=days)
    dropped: list[str] = []
    for begins in sorted({_begins(row["name"]) for row in await database.rows(_PARTITIONS)}):
        if begins + timedelta(days=7) <= last:
            dropped += await _drop_week(database, begins)
    return dropped


async def forget(database: Database) -> None:
    """Delete what the small tables need no more: workers that ended, dedupe keys whose window has passed."""
    await database.rows(_FORGET_WORKERS)
    await database.rows(_FORGET_KEYS)


async def _make(tx: Tx, partitions: Sequence[Partition]) -> list[str]:
    for p in partitions:
        await tx.script(_MAKE.format(name=p.name, table=p.table, key=p.key, first=_first_id(p.begins), end=_first_id(p.ends)))
    return [p.name for p in partitions]


async def _drop_week(database: Database, begins: date) -> list[str]:
    """Both tables' week or neither. Waits only a moment for its locks: claims must never queue behind it."""
    pair = [Partition("jobs", begins), Partition("attempts", begins)]
    try:
        async with database.transaction() as tx:
            await tx.script(_PATIENCE)
            present = {row["name"] for row in await tx.rows(_PARTITIONS)}
            names = [p.name for p in pair if p.name in present]
            for name in names:
                await tx.script(f"lock table windlass.{name} in access exclusive mode")
            if await tx.value(_LIVE_BETWEEN, _first_id(begins), _first_id(pair[0].ends)):
                return []
            for name in names:
                await tx.script(f"drop table windlass.{name}")
    except Disconnected:
        raise
    except WindlassError:
        return []  # somebody reads it just now: next time
    return names


def _begins(name: str) -> date:
    return datetime.strptime(name.rsplit("_p", 1)[1], "%Y%m%d").replace(tzinfo=UTC).date()


def _first_id(day: date) -> str:
    """The smallest id made on this day (as windlass.uuid7_from)."""
    milliseconds = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"
