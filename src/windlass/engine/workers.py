"""Workers as the database knows them: one row for each life of a worker, from its start to its end."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from windlass.db import Database, Session, statement
from windlass.engine._lease import release, rescue_worker
from windlass.model import Held, WorkerInfo

_NAMESAKE = statement(__file__, "namesake")
_DECLARE_DEAD = statement(__file__, "declare_dead")
_JOIN = statement(__file__, "join")
_BEAT = statement(__file__, "beat")
_LEAVE = statement(__file__, "leave")
_TO_CANCEL = statement(__file__, "to_cancel")
_UNHELD = statement(__file__, "unheld")
_POLLED_QUEUES = statement(__file__, "polled_queues")
_LISTENING = statement(__file__, "listening")
_DEAF = statement(__file__, "deaf")
_WORKERS = statement(__file__, "workers")


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker, as people see it."""

    id: UUID
    name: str
    hostname: str
    pid: int
    version: str
    queues: list[str]
    definitions: list[str]
    concurrency: int
    running: int
    rss_bytes: int
    started_at: datetime
    last_seen_at: datetime
    silent_seconds: float
    ended_at: datetime | None
    ended_why: str | None


class Namesake(NamedTuple):
    """A worker of a name that another wants, in namesake.sql's order."""

    id: UUID
    name: str
    hostname: str
    pid: int
    birth: str | None
    last_seen_at: datetime


async def namesake(session: Session, name: str) -> Namesake | None:
    """The worker of this name that has not ended, as far as anybody knows."""
    row = await session.row(_NAMESAKE, name)
    return None if row is None else Namesake(*row)


async def replace(database: Database, worker_id: UUID) -> int:
    """Declare a worker dead, and take back at once what it held; answers how many jobs. Should it be alive
    after all, its next heartbeat tells it so, and nothing that it writes counts any more.
    """
    await database.row(_DECLARE_DEAD, worker_id)
    return (await rescue_worker(database, worker_id)).lost


async def join(session: Session, info: WorkerInfo) -> bool:
    """Note that a worker starts; False when one of its name has not ended."""
    return await session.value(
        _JOIN, info.id, info.name, info.hostname, info.pid, info.birth, info.version, list(info.queues),
        list(info.definitions), info.concurrency,
    ) is not None  # fmt: skip


async def beat(session: Session, worker_id: UUID, running: int, rss_bytes: int) -> bool:
    """Say that the worker lives; False when it was declared dead."""
    return await session.value(_BEAT, worker_id, running, rss_bytes) is not None


async def leave(session: Session, worker_id: UUID) -> None:
    """Note that a worker ended as it should."""
    await session.row(_LEAVE, worker_id)


async def to_cancel(session: Session, worker_id: UUID) -> list[tuple[UUID, int, str]]:
    """The worker's jobs that somebody asked to stop: job, lease number, reason."""
    return [(row[0], row[1], row[2]) for row in await session.rows(_TO_CANCEL, worker_id)]


async def give_back_unheld(database: Database, worker_id: UUID, held: Collection[int]) -> int:
    """Give back what the worker claimed without hearing of it, since the answer was lost: all its leases but those held.
    Their attempts are not spent. Answers how many there were.
    """
    unheld = [Held(row[0], row[1]) for row in await database.rows(_UNHELD, worker_id, list(held))]
    if unheld:
        await release(database, worker_id, unheld)
    return len(unheld)


async def poll(session: Session, worker_id: UUID, queues: Sequence[str]) -> None:
    """Note at which queues the worker looks now."""
    await session.row(_POLLED_QUEUES, worker_id, list(queues))


async def listen(session: Session, worker_id: UUID, queues: Sequence[int]) -> None:
    """Ask to be woken when one of these queues gets work."""
    await session.row(_LISTENING, worker_id, list(queues))


async def unlisten(session: Session, worker_id: UUID) -> None:
    """The worker is busy, and looks by itself."""
    await session.row(_DEAF, worker_id)


async def ls(session: Session, *, ended: bool = False) -> list[WorkerView]:
    """Workers, those that live first."""
    return [WorkerView(**dict(row)) for row in await session.rows(_WORKERS, ended)]
