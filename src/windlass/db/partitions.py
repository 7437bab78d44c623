"""Tables that are partitioned by time: a stretch is made beside its table and attached, and goes as a whole.

Both need locks that whoever uses the table comes to stand behind, so they are asked for only for a moment: what cannot
be had now is done another time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import structlog

from windlass.db._database import Database, Tx
from windlass.db._statement import Statement, statement

_log = structlog.get_logger("windlass.db.partitions")
_NAMES = statement(__file__, "names")
_LOCK_BRIEFLY = statement(__file__, "lock_briefly")
_TURN = Statement("db.partitions_turn", "select pg_advisory_xact_lock(7743012202)")
# What has strayed into the default partition (this one was missing when its time began) moves over, or it could never
# be attached.
_MAKE = """
create table windlass.{name} (like windlass.{table} including defaults including constraints including indexes);
with strays as (
  delete from windlass.{table}_default where {key} >= '{first}' and {key} < '{end}' returning *
)
insert into windlass.{name} select * from strays;
alter table windlass.{table} attach partition windlass.{name} for values from ('{first}') to ('{end}')
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A partition to be: `key` is the column that decides, and lies from `first` to before `end`."""

    table: str
    name: str
    key: str
    first: str
    end: str


async def names(database: Database, *tables: str) -> list[str]:
    """The partitions of these tables, the default ones left out."""
    return [row["name"] for row in await database.rows(_NAMES, list(tables))]


async def attach(database: Database, stretches: Sequence[Stretch]) -> list[str]:
    """Make those that are missing, all or none; answers the names of those made."""
    async with database.transaction() as tx:
        await tx.value(_TURN)
        present = {row["name"] for row in await tx.rows(_NAMES, sorted({one.table for one in stretches}))}
        missing = [one for one in stretches if one.name not in present]
        for table in sorted({one.table for one in missing}):
            if not await locked(tx, (table, "share update exclusive"), (f"{table}_default", "access exclusive")):
                _log.warning("partitions wait for another time: somebody holds a lock on the table", table=table)
                return []
        for one in missing:
            await tx.script(_MAKE.format(**asdict(one)))
        return [one.name for one in missing]


async def drop(tx: Tx, doomed: Mapping[str, str]) -> bool:
    """Drop one of each table, given as table and name, unless somebody uses the tables just now."""
    wanted = [(lockable, "access exclusive") for lockable in (*doomed.keys(), *doomed.values())]
    if not await locked(tx, *wanted):
        return False
    for name in doomed.values():
        await tx.script(f"drop table windlass.{name}")
    return True


async def locked(tx: Tx, *wanted: tuple[str, str]) -> bool:
    """Whether these locks, each a table and a mode, could be had within a moment, until the end of the transaction."""
    for name, mode in wanted:
        if not await tx.value(_LOCK_BRIEFLY, name, mode):
            return False
    return True
