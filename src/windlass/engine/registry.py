"""Definitions: the code's side flows in by hash, a person's overrides stay (DESIGN §3, §10)."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import orjson

from windlass.db import Database, Row, Session, statement
from windlass.model import Backoff, Definition, EffectiveDefinition
from windlass.model.overrides import check_overrides

_HASHES = statement(__file__, "definition_hashes")
_UPSERT = statement(__file__, "upsert_definition")
_MARK_DELETED = statement(__file__, "mark_deleted_definitions")
_EFFECTIVE = statement(__file__, "definitions")
_OVERRIDE = statement(__file__, "override_definition")
_UNHANDLED = statement(__file__, "unhandled_definitions")
_MAKE_QUEUES = statement(__file__, "make_queues")


async def sync(
    database: Database, source: str, definitions: Sequence[Definition], *, complete: bool = False, force: bool = False
) -> list[str]:
    """Bring what this code says into the database; answers the keys that changed. Nothing is written when
    nothing changed. `complete` marks what has left the code of this source, unless a worker that lives still does it;
    `force` clears overrides. A source is one application: two that share a name take each other's definitions for gone.
    """
    known = {row["key"]: row for row in await database.rows(_HASHES)}
    changed = [d for d in definitions if force or _differs(d, known.get(d.key), source)]
    if changed:
        async with database.transaction() as tx:
            await queue_ids(tx, [d.queue for d in definitions])
            for definition in sorted(changed, key=lambda d: d.key):
                await tx.row(_UPSERT, *_columns(definition), source, force)
    if complete:
        await retire(database, source, await gone(database, source, definitions))
    return [d.key for d in changed]


async def gone(session: Session, source: str, definitions: Sequence[Definition]) -> list[str]:
    """The keys that have left the code of this source, and are not marked so yet."""
    here = {d.key for d in definitions}
    rows = await session.rows(_HASHES)
    return [r["key"] for r in rows if r["source"] == source and not r["deleted_from_code"] and r["key"] not in here]


async def retire(session: Session, source: str, keys: Sequence[str]) -> list[str]:
    """Mark definitions that have left the code of this source; answers those that a worker that lives still does: while
    versions of an application run side by side, each has keys of which the other knows nothing.
    """
    marked = {row["key"] for row in await session.rows(_MARK_DELETED, source, list(keys))} if keys else set[str]()
    return [key for key in keys if key not in marked]


async def effective(session: Session) -> dict[str, EffectiveDefinition]:
    """All definitions as they count now, by key."""
    return {row["key"]: _effective(row) for row in await session.rows(_EFFECTIVE)}


async def override(session: Session, key: str, overrides: Mapping[str, object]) -> bool:
    """Lay a person's choices over what the code says; a None takes one back. False if there is no such key. Raises
    UsageError for what cannot be: one bad value would keep every worker from reading its definitions.
    """
    checked = check_overrides(overrides)
    if (queue := checked.get("queue")) is not None:
        await queue_ids(session, [str(queue)])
    return await session.value(_OVERRIDE, key, _json(checked)) is not None


async def unhandled(session: Session, queues: Sequence[str], known: Sequence[UUID]) -> list[str]:
    """Active definitions that send jobs to these queues and are not among the known ones."""
    return [row["key"] for row in await session.rows(_UNHANDLED, list(queues), list(known))]


async def queue_ids(session: Session, names: Sequence[str]) -> dict[str, int]:
    """Ids of these queues, made if they are new. One that another transaction makes at the same moment is not in the
    answer, which is older than that: the next one has it.
    """
    found: dict[str, int] = {}
    while missing := sorted(set(names) - found.keys()):
        found |= {row["name"]: row["id"] for row in await session.rows(_MAKE_QUEUES, missing)}
    return found


def _differs(definition: Definition, row: Row | None, source: str) -> bool:
    return row is None or row["hash"] != definition.hash or row["deleted_from_code"] or row["source"] != source


def _columns(d: Definition) -> tuple[object, ...]:
    return (
        d.key, d.kind, d.description, _json(d.arg_schema), d.argv and list(d.argv), _json(d.env), d.queue, d.priority,
        d.max_attempts, d.timeout_seconds, _json(d.backoff.as_dict()), d.dedupe_window_seconds, d.max_running,
        _json(list(d.concurrency)), d.rate and _json(d.rate), d.schedule and _json(d.schedule), d.retention_days,
        d.retention_count, list(d.tags), d.hash,
    )  # fmt: skip


def _effective(row: Row) -> EffectiveDefinition:
    return EffectiveDefinition(
        id=str(row["id"]),
        key=row["key"],
        kind=row["kind"],
        queue=row["queue"],
        priority=row["priority"],
        max_attempts=row["max_attempts"],
        timeout_seconds=row["timeout_seconds"],
        backoff=Backoff(**orjson.loads(row["backoff"])),
        is_active=row["is_active"],
        deleted_from_code=row["deleted_from_code"],
        description=row["description"],
        arg_schema=orjson.loads(row["arg_schema"]),
        argv=tuple(row["argv"]) if row["argv"] is not None else None,
        env=orjson.loads(row["env"]),
        tags=tuple(row["tags"]),
    )


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
