"""`windlass doctor`: looks at the database and at what runs on it, and says of each thing whether it is well."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from uuid import uuid4

from windlass import engine
from windlass.db import Database, Listener, Row, Statement, migrate, statement
from windlass.model.errors import Disconnected, WindlassError
from windlass.settings import Settings

_SERVER = statement(__file__, "server")
_NOTIFY = statement(__file__, "notify")
_UNHANDLED = statement(__file__, "unhandled")
_IDLE_QUEUES = statement(__file__, "idle_queues")
_BLOCKED = statement(__file__, "blocked")
_OLDEST_SNAPSHOT = statement(__file__, "oldest_snapshot")
_PARTITIONS = statement(__file__, "partitions")
_STRAYS = statement(__file__, "strays")
_DEAD_TUPLES = statement(__file__, "dead_tuples")
_NOW = Statement("doctor.now", "select clock_timestamp()")
_CHANNEL = "windlass_doctor"
_OLDEST, _NEWEST = 15, 18
_CONNECTIONS_PER_WORKER = 8
_CLOCK_SECONDS, _HEARD_SECONDS, _SILENT_SECONDS = 2.0, 5.0, 10.0
_BLOCKED_SECONDS = 3600.0
_SNAPSHOT_SECONDS, _SNAPSHOT_TOO_LONG = 300.0, 3600.0
_DEAD_TUPLES_MANY = 200_000
_NOTIFICATIONS = 0.5
_DISK_LITTLE, _DISK_TOO_LITTLE = 5 << 30, 1 << 30

Mark = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and what to do if it is not well."""

    name: str
    mark: Mark
    text: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at."""

    settings: Settings
    database: Database
    server: Row


async def examine(settings: Settings, url: str) -> list[Finding]:
    """Look at everything; what cannot be looked at is a finding, too."""
    try:
        database = await Database.open(url, size=2)
    except WindlassError as problem:
        advice = "start it, or put WINDLASS_DATABASE_URL right" if isinstance(problem, Disconnected) else None
        return [Finding("database", "error", str(problem), advice), *_disk(settings)]
    try:
        return [*await _examine(settings, database), *_disk(settings)]
    finally:
        await database.close()


async def _examine(settings: Settings, database: Database) -> list[Finding]:
    server = await database.row(_SERVER)
    assert server is not None
    patient = Patient(settings, database, server)
    found = [await _look(name, look, patient) for name, look in _ANYWHERE.items()]
    if all(finding.mark == "ok" for finding in found if finding.name == "migrations"):
        found += [await _look(name, look, patient) for name, look in _MIGRATED.items()]
    return found


async def _look(name: str, look: "Look", patient: Patient) -> Finding:
    try:
        return Finding(name, *await look(patient))
    except WindlassError as problem:
        return Finding(name, "error", str(problem))


# -- on any database -----------------------------------------------------------------------------------------


async def _version(patient: Patient) -> "Found":
    told, major = f"PostgreSQL {patient.server['told']}", patient.server["version"] // 10_000
    if major < _OLDEST:
        return "error", f"{told} is too old", f"upgrade it to PostgreSQL {_OLDEST} or newer"
    if patient.server["standby"]:
        return "error", f"{told} is a standby, and takes no writes", "let WINDLASS_DATABASE_URL name the primary"
    if major > _NEWEST:
        return "warning", f"{told} is newer than what this version was tested with", "upgrade Windlass"
    return "ok", told, None


async def _settings(patient: Patient) -> "Found":
    server = patient.server
    if not server["fsync"] or not server["full_page_writes"]:
        return "error", "fsync or full_page_writes is off: a power cut can destroy the database", "set both to on"
    if not server["autovacuum"]:
        return "error", "autovacuum is off: dead rows will slow every claim", "set autovacuum = on"
    if server["synchronous_commit"] == "off":
        return "warning", "synchronous_commit is off: a crash loses the last moments", "set it to on if jobs matter"
    return "ok", "fsync, autovacuum and synchronous_commit are as they should be", None


async def _connections(patient: Patient) -> "Found":
    most, used = patient.server["max_connections"], patient.server["connections"]
    told = f"{used} of {most} connections are in use"
    if most - used < 2 * _CONNECTIONS_PER_WORKER:
        advice = f"raise max_connections, or put a pooler before it: a worker takes up to {_CONNECTIONS_PER_WORKER}"
        return "warning", told, advice
    return "ok", told, None


async def _migrations(patient: Patient) -> "Found":
    standing = await migrate.standing(patient.database)
    wrong = [one.name for one in standing if one.problem]
    pending = [one.name for one in standing if one.applied_at is None]
    if wrong:
        return "error", f"{', '.join(wrong)}: not what this version knows", "see `windlass db status`"
    if pending:
        return "error", f"not applied: {', '.join(pending)}", "run `windlass db migrate`"
    return "ok", f"all {len(standing)} applied", None


async def _clock(patient: Patient) -> "Found":
    began = time.monotonic()
    there: datetime = await patient.database.value(_NOW)
    ahead = (there - datetime.now(UTC)).total_seconds() + (time.monotonic() - began) / 2
    told = f"the database's clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    if abs(ahead) > _CLOCK_SECONDS:
        return "warning", told, "keep both by NTP: due times are the database's, those of log lines this machine's"
    return "ok", told, None


async def _wake_ups(patient: Patient) -> "Found":
    """Say something, and hear it: the only proof that LISTEN works."""
    direct = patient.settings.listen_url
    if patient.database.pooled and direct is None:
        advice = "set WINDLASS_LISTEN_URL to one without a pooler, for wake-ups in a millisecond"
        return "warning", "a pooler stands before the database: workers poll", advice
    took = await _say_and_hear(patient.database, direct or patient.database.url)
    if took is None:
        return (
            "error",
            "a NOTIFY is not heard: workers only poll",
            "let WINDLASS_LISTEN_URL name the primary itself, with no pooler between",
        )
    usage = patient.server["notifications"]
    if usage > _NOTIFICATIONS:
        return "warning", f"NOTIFY's queue is {usage:.0%} full", "end sessions that LISTEN in a transaction they keep open"
    return "ok", f"a NOTIFY was heard after {took * 1000:.1f} ms", None


async def _say_and_hear(database: Database, url: str) -> float | None:
    word, heard = uuid4().hex, asyncio.Event()
    listener = Listener(url, _CHANNEL, lambda payload: heard.set() if payload == word else None)
    await listener.start()
    try:
        if not listener.connected:
            return None
        began = time.monotonic()
        await database.row(_NOTIFY, _CHANNEL, word)
        await asyncio.wait_for(heard.wait(), _HEARD_SECONDS)
        return time.monotonic() - began
    except TimeoutError:
        return None
    finally:
        await listener.stop()


async def _snapshot(patient: Patient) -> "Found":
    found = await patient.database.row(_OLDEST_SNAPSHOT)
    if found is None:
        return "ok", "no session holds a snapshot", None
    told = f"the oldest snapshot is {found['seconds']:.0f} s old (pid {found['pid']}, {found['who']})"
    if found["seconds"] < _SNAPSHOT_SECONDS:
        return "ok", told, None
    mark: Mark = "error" if found["seconds"] > _SNAPSHOT_TOO_LONG else "warning"
    return mark, told, f"no row that died since can be vacuumed: end it, with select pg_terminate_backend({found['pid']})"


# -- on a migrated one ---------------------------------------------------------------------------------------


async def _partitions(patient: Patient) -> "Found":
    advice = "run `windlass db migrate`, and keep a worker running: it makes them ahead"
    rows = await patient.database.rows(_PARTITIONS)
    ahead = {row["history"]: (row["until"] - row["today"]).days if row["until"] else 0 for row in rows}
    if lacking := [history for history, days in ahead.items() if days < 1]:
        return "error", f"there is none for today: {', '.join(lacking)}", advice
    if await patient.database.value(_STRAYS):
        return "warning", "some rows lie outside all of them", "a clock was wrong once: look into windlass.jobs_default"
    if min(ahead.values()) < 2:  # noqa: PLR2004
        return "warning", "there is none for tomorrow", advice
    return "ok", ", ".join(f"{history} {days} days ahead" for history, days in ahead.items()), None


async def _workers(patient: Patient) -> "Found":
    found = await engine.workers.ls(patient.database)
    silent = [worker.name for worker in found if worker.silent_seconds > _SILENT_SECONDS]
    if silent:
        told = f"{len(silent)} of {len(found)} are silent: {_named(silent)}"
        return "warning", told, "see whether they still run; their jobs go to others once a worker lives"
    if not found:
        return "warning", "none runs", "start one with `windlass worker -A module:app`"
    return "ok", f"{len(found)} alive, {sum(worker.running for worker in found)} jobs running", None


async def _unhandled(patient: Patient) -> "Found":
    rows = await patient.database.rows(_UNHANDLED, _SILENT_SECONDS)
    if not rows:
        return "ok", "every job that is queued has a worker that handles it", None
    told = _named([f"{row['key']} ({row['jobs']} in queue {row['queue']})" for row in rows])
    return "warning", f"no worker that lives handles {told}", "start a worker with the application that defines them"


async def _queues(patient: Patient) -> "Found":
    rows = await patient.database.rows(_IDLE_QUEUES, _SILENT_SECONDS)
    if not rows:
        return "ok", "definitions send jobs to every queue that workers look into", None
    told = f"workers look into {_named([row['queue'] for row in rows])}, where no definition sends jobs"
    return "warning", told, "see whether their --queues are spelt as the definitions' queue="


async def _blocked(patient: Patient) -> "Found":
    found = await patient.database.row(_BLOCKED)
    assert found is not None
    if not found["jobs"]:
        return "ok", "none waits for other jobs", None
    told = f"{found['jobs']} wait for other jobs, the first for {found['seconds']:.0f} s"
    if found["seconds"] > _BLOCKED_SECONDS:
        return "warning", told, "see what for, with `windlass jobs ls --status blocked` and `windlass jobs show`"
    return "ok", told, None


async def _dead_rows(patient: Patient) -> "Found":
    found = await patient.database.row(_DEAD_TUPLES)
    if found is None or not found["dead"]:
        return "ok", "none in the hot tables", None
    told = f"at most {found['dead']:,} in a hot table ({found['relname']})"
    if found["dead"] > _DEAD_TUPLES_MANY:
        return (
            "warning",
            told,
            f"let autovacuum keep up, or run `vacuum windlass.{found['relname']}`; an old snapshot keeps it from that",
        )
    return "ok", told, None


def _disk(settings: Settings) -> list[Finding]:
    """Only where there is an embedded database: another's disk cannot be seen from here."""
    if settings.database_url or not settings.home.is_dir():
        return []
    free = shutil.disk_usage(settings.home).free
    told = f"{free / (1 << 30):.1f} GB free in {settings.home}"
    if free > _DISK_LITTLE:
        return [Finding("disk", "ok", told)]
    return [
        Finding("disk", "error" if free < _DISK_TOO_LITTLE else "warning", told, "make room: PostgreSQL stops when it is full")
    ]


def _named(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


Found = tuple[Mark, str, str | None]
Look = Callable[[Patient], Awaitable[Found]]
_ANYWHERE: dict[str, Look] = {
    "database": _version,
    "settings": _settings,
    "connections": _connections,
    "clock": _clock,
    "wake-ups": _wake_ups,
    "snapshot": _snapshot,
    "migrations": _migrations,
}
_MIGRATED: dict[str, Look] = {
    "partitions": _partitions,
    "workers": _workers,
    "definitions": _unhandled,
    "queues": _queues,
    "blocked": _blocked,
    "dead rows": _dead_rows,
}
