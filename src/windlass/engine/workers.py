"""Workers as the database knows them: one row for each life of a worker, from its start to its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from windlass.db import Database, Session, statement
from windlass.engine._lease import rescue_worker
from windlass.model import WorkerInfo

_NAMESAKES = statement(__file__, "namesakes")
_DECLARE_DEAD = statement(__file__, "declare_dead")
_JOIN = statement(__file__, "join")
_BEAT = statement(__file__, "beat")
_LEAVE = statement(__file__, "leave")
_TO_CANCEL = statement(__file__, "to_cancel")
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


async def namesakes(session: Session, name: str) -> list[WorkerView]:
    """Workers of this name that have not ended, as far as anybody knows."""
    return [WorkerView(**dict(row)) for row in await session.rows(_NAMESAKES, name)]


async def replace(database: Database, worker_id: UUID) -> int:
    """Declare a worker dead, and take back at once what it held; answers how many jobs. Should it be alive
    after all, its next heartbeat tells it so, and nothing that it writes counts any more.
    """
    await database.row(_DECLARE_DEAD, worker_id)
    return (await rescue_worker(database, worker_id)).lost


async def join(session: Session, info: WorkerInfo) -> None:
    """Note that a worker starts."""
    await session.row(
        _JOIN, info.id, info.name, info.hostname, info.pid, info.version, list(info.queues),
        list(info.definitions), info.concurrency,
    )  # fmt: skip


async def beat(session: Session, worker_id: UUID, running: int, rss_bytes: int) -> bool:
    """Say that the worker lives; False when it was declared dead."""
    return await session.value(_BEAT, worker_id, running, rss_bytes) is not None


async def leave(session: Session, worker_id: UUID) -> None:
    """Note that a worker ended as it should."""
    await session.row(_LEAVE, worker_id)


async def to_cancel(session: Session, worker_id: UUID) -> list[tuple[UUID, int, str]]:
    """The worker's jobs that somebody asked to stop: job, lease number, reason."""
    return [(row[0], row[1], row[2]) for row in await session.rows(_TO_CANCEL, worker_id)]


async def listen(session: Session, worker_id: UUID, queues: Sequence[int]) -> None:
    """Ask to be woken when one of these queues gets work."""
    await session.row(_LISTENING, worker_id, list(queues))


async def unlisten(session: Session, worker_id: UUID) -> None:
    """The worker is busy, and looks by itself."""
    await session.row(_DEAF, worker_id)


async def ls(session: Session, *, ended: bool = False) -> list[WorkerView]:
    """Workers, those that live first."""
    return [WorkerView(**dict(row)) for row in await session.rows(_WORKERS, ended)]
