"""Migrations: numbered SQL files, each applied once, under a lock, with a checksum of what was applied."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources

from windlass.db._database import Database, Tx
from windlass.db._statement import Statement
from windlass.model.errors import SchemaMismatch

# Held to the end of each transaction, so it works behind a pooler; the number says "windlass" to nobody else.
_LOCK = Statement("db.migrate_lock", "select pg_advisory_xact_lock(7743012201)")
_LEDGER = """
create schema if not exists windlass;
create table if not exists windlass.migrations (
  version int primary key, name text not null, checksum text not null,
  applied_at timestamptz not null default clock_timestamp())
"""
_HAS_LEDGER = Statement("db.has_ledger", "select to_regclass('windlass.migrations') is not null")
_APPLIED = Statement("db.applied", "select version, name, checksum, applied_at from windlass.migrations order by version")
_NOTE = Statement("db.note_migration", "insert into windlass.migrations (version, name, checksum) values ($1, $2, $3)")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    text: str = field(repr=False)

    @property
    def checksum(self) -> str:
        """What identifies its content."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Standing:
    """How one migration stands in a database; `applied_at` is None while it waits."""

    version: int
    name: str
    applied_at: datetime | None
    problem: str | None = None


def known() -> list[Migration]:
    """All there are, in order."""
    folder = resources.files("windlass.migrations")
    files = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [Migration(int(name[:4]), name[:-4], (folder / name).read_text(encoding="utf-8")) for name in files]


async def apply(database: Database) -> list[Migration]:
    """Apply what is missing; answers what was applied. Any number of processes may do it at once."""
    applied: list[Migration] = []
    for migration in known():
        async with database.transaction() as tx:
            await tx.value(_LOCK)
            await tx.script(_LEDGER)
            if migration.version in await _checked(tx):
                continue
            await tx.script(migration.text)
            await tx.row(_NOTE, migration.version, migration.name, migration.checksum)
        applied.append(migration)
    return applied


async def standing(database: Database) -> list[Standing]:
    """Every migration, known here or applied there, with what is wrong with it if anything."""
    ours = {migration.version: migration for migration in known()}
    ledger = await _ledger(database)
    found = {version: Standing(version, m.name, None) for version, m in ours.items()}
    for version, (name, checksum, at) in ledger.items():
        found[version] = Standing(version, name, at, _problem(ours.get(version), checksum))
    return [found[version] for version in sorted(found)]


async def require_current(database: Database) -> None:
    """Raise SchemaMismatch, saying what to do, unless the database has exactly the migrations known here."""
    for one in await standing(database):
        if one.problem:
            raise SchemaMismatch(_told(one))
        if one.applied_at is None:
            msg = f"This database lacks migration {one.name}: run `windlass db migrate`."
            raise SchemaMismatch(msg)


def as_script(chosen: Sequence[Migration]) -> str:
    """The migrations as SQL for the user's own tool, with the rows that note them."""
    parts = [_LEDGER.strip() + ";"]
    for one in chosen:
        parts.append(f"-- {one.name}\nbegin;\n{one.text.strip()}")
        parts.append(
            "insert into windlass.migrations (version, name, checksum) "
            f"values ({one.version}, '{one.name}', '{one.checksum}');\ncommit;"
        )
    return "\n\n".join(parts) + "\n"


async def _checked(tx: Tx) -> set[int]:
    ours = {migration.version: migration for migration in known()}
    rows = await tx.rows(_APPLIED)
    for row in rows:
        problem = _problem(ours.get(row["version"]), row["checksum"])
        if problem:
            raise SchemaMismatch(_told(Standing(row["version"], row["name"], row["applied_at"], problem)))
    return {row["version"] for row in rows}


async def _ledger(database: Database) -> dict[int, tuple[str, str, datetime]]:
    if not await database.value(_HAS_LEDGER):
        return {}
    return {r["version"]: (r["name"], r["checksum"], r["applied_at"]) for r in await database.rows(_APPLIED)}


def _problem(ours: Migration | None, checksum: str) -> str | None:
    if ours is None:
        return "from the future"
    return "changed" if ours.checksum != checksum else None


def _told(one: Standing) -> str:
    if one.problem == "changed":
        return (
            f"Migration {one.name} was applied to this database with other content than this version of "
            "Windlass has. Use the version that applied it, or a fresh database."
        )
    return (
        f"This database has migration {one.name}, which this version of Windlass does not know: "
        "it was migrated by a newer one. Upgrade this installation."
    )
