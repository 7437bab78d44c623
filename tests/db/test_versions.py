"""A job's whole life on an older PostgreSQL than the embedded one of today: what the newest has, the others must be given."""

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from engine.hands import Hand
from windlass import engine, logs
from windlass.db import Database, Statement, embedded, migrate
from windlass.model import Definition, JobState, NewJob, WorkerInfo

_IDS = Statement(
    "tests.ids", "select windlass.uuid7() as id, windlass.uuid7_time(windlass.uuid7()) as at from generate_series(1, 500)"
)


@pytest.fixture
def older():
    """A server of version 16."""
    home = Path(tempfile.mkdtemp(prefix="windlass-test-16-"))
    home.chmod(0o755)  # as root, the server runs as somebody else
    server = embedded.start_embedded(home, version=16, settings={"shared_buffers": "16MB"})
    yield server.url
    embedded.stop_embedded(server)
    shutil.rmtree(home)


def test_a_job_lives_on_an_older_server_too(older):
    async def story() -> None:
        db = await Database.open(older, pinned=True)
        try:
            await migrate.apply(db)
            await engine.prune.make_partitions(db)
            await logs.make_partitions(db)
            await engine.registry.sync(db, "tests", [Definition("noop")])
            await _live(db)
        finally:
            await db.close()

    asyncio.run(story())


async def _live(db: Database) -> None:
    rows = await db.rows(_IDS)
    moments = [row["id"].int >> 80 for row in rows]
    assert moments == sorted(moments)
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["id"].version == 7 and abs(row["at"] - datetime.now(UTC)) < timedelta(minutes=1) for row in rows)
    info = WorkerInfo(uuid4(), "old", "host", 1, "0", ("default",), ("noop",), 10)
    await engine.workers.join(db, info)
    ids = await engine.registry.queue_ids(db, ["default"])
    hand = Hand(db, info.id, engine.Claim(ids["default"], info.id))
    asked = await engine.enqueue(db, [NewJob("noop", f'{{"n": {n}}}') for n in range(100)])
    jobs = await hand.claim(100)
    assert [job.id for job in jobs] == [one.id for one in asked]
    assert await hand.settle(*jobs) == {job.lease for job in jobs}
    tenant = await engine.reads.tenant_of(db, jobs[0].id)
    assert (await engine.reads.job(db, tenant, jobs[0].id)).status is JobState.SUCCEEDED
