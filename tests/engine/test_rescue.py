"""Rescue: what a dead worker held goes on elsewhere, and counts as tried."""

import asyncio

from engine.hands import held
from windlass import engine
from windlass.db import Statement
from windlass.model import JobState

_SILENT = Statement(
    "tests.silent",
    "update windlass.workers set last_seen_at = clock_timestamp() - $2::float8 * interval '1 second' where id = $1",
)
_EXPIRE = Statement(
    "tests.expire", "update windlass.leases set expires_at = clock_timestamp() - interval '1 second' where worker_id = $1"
)


async def fall_silent(db, worker) -> None:
    await db.rows(_SILENT, worker.id, 60.0)
    await db.rows(_EXPIRE, worker.id)


async def test_a_silent_workers_jobs_go_back_with_jitter(db, hand, enqueue, view):
    ids = await enqueue(3)
    worker = await hand()
    await worker.claim(3)
    await fall_silent(db, worker)
    assert (await engine.rescue(db)).lost == 3
    for job_id in ids:
        seen = await view(job_id)
        assert (seen.status, seen.attempt_count) == (JobState.SCHEDULED, 1)
        (attempt,) = await engine.reads.attempts(db, seen.tenant_id, job_id)
        assert attempt.status == "lost"
    assert len({(await view(job_id)).scheduled_for for job_id in ids}) == 3


async def test_a_worker_that_beats_keeps_its_jobs(db, hand, enqueue):
    await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    await db.rows(_SILENT, worker.id, 20.0)
    assert await engine.workers.beat(db, worker.id, 1, 1)
    assert await engine.extend(db, worker.id, [held(job)]) == {job.lease}
    assert (await engine.rescue(db, sweep=True)).lost == 0
    assert await worker.settle(job) == {job.lease}


async def test_a_lease_that_ran_out_under_a_living_worker_is_swept(db, hand, enqueue):
    """A claim whose answer was lost on the way: its worker lives, and knows nothing of the job."""
    await enqueue()
    worker = await hand()
    await worker.claim()
    await db.rows(_EXPIRE, worker.id)
    assert (await engine.rescue(db)).lost == 0
    assert (await engine.rescue(db, sweep=True)).lost == 1


async def test_the_last_attempt_lost_ends_in_the_dead_letters(db, hand, enqueue, view):
    (job_id,) = await enqueue(max_attempts=1)
    worker = await hand()
    await worker.claim()
    await fall_silent(db, worker)
    assert (await engine.rescue(db)).ended == 1
    seen = await view(job_id)
    assert seen.status is JobState.DEAD_LETTER
    assert "lost" in seen.error


async def test_a_job_asked_to_cancel_does_not_come_back(db, hand, enqueue, view):
    (job_id,) = await enqueue()
    worker = await hand()
    await worker.claim()
    await engine.cancel(db, (await view(job_id)).tenant_id, [job_id], "enough")
    await fall_silent(db, worker)
    await engine.rescue(db)
    assert (await view(job_id)).status is JobState.CANCELED


async def test_many_rescuers_count_a_loss_once(db, hand, enqueue, view):
    ids = await enqueue(50)
    worker = await hand()
    await worker.claim(50)
    await fall_silent(db, worker)
    found = await asyncio.gather(*(engine.rescue(db, sweep=True) for _ in range(8)))
    assert sum(one.lost for one in found) == 50
    assert {(await view(job_id)).attempt_count for job_id in ids} == {1}


async def test_thousands_of_stale_leases_go_in_one_sweep(db, hand, enqueue):
    await enqueue(3000)
    worker = await hand()
    while await worker.claim(500):
        pass
    await fall_silent(db, worker)
    assert (await engine.rescue(db)).lost == 3000
    assert (await engine.reads.counts(db))[JobState.RUNNING] == 0


async def test_a_replaced_worker_loses_its_jobs_at_once_and_is_told(db, hand, enqueue):
    await enqueue(2)
    old = await hand("same")
    await old.claim(2)
    assert await engine.workers.replace(db, old.id) == 2
    assert not await engine.workers.beat(db, old.id, 2, 1)
    assert len(await (await hand("same")).claim(2)) == 2
