"""Fixtures for the engine's tests."""

from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import pytest

from engine.hands import Hand
from windlass import engine
from windlass.db import Database
from windlass.model import NewJob, WorkerInfo


@pytest.fixture
def hand(db: Database) -> Callable[..., Awaitable[Hand]]:
    """Make a worker that claims from a queue."""

    async def make(name: str | None = None, queue: str = "default", lease: float = 30.0) -> Hand:
        info = WorkerInfo(uuid4(), name or uuid4().hex, "host", 1, "0", (queue,), ("noop",), 10)
        await engine.workers.join(db, info)
        ids = await engine.registry.queue_ids(db, [queue])
        return Hand(db, info.id, engine.Claim(ids[queue], info.id, lease))

    return make


@pytest.fixture
def enqueue(db: Database, noop: str) -> Callable[..., Awaitable[list[UUID]]]:
    """Enqueue so many no-ops."""

    async def make(count: int = 1, **told) -> list[UUID]:
        return [one.id for one in await engine.enqueue(db, [NewJob(noop, **told) for _ in range(count)])]

    return make


@pytest.fixture
def view(db: Database):
    """A job as people see it."""

    async def look(job_id: UUID):
        return await engine.reads.job(db, await engine.reads.tenant_of(db, job_id), job_id)

    return look
