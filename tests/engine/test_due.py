"""Due: what waits for its time goes on at that time."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass import engine
from windlass.db import Statement
from windlass.model import JobState, NewJob

_ADVANCE = Statement("tests.advance", "update windlass.parked set due_at = due_at - $1::float8 * interval '1 second'")


async def test_due_jobs_are_moved_and_the_next_one_is_waited_for(db, enqueue, view):
    (soon,) = await enqueue(delay=100.0)
    (late,) = await enqueue(delay=200.0)
    due = engine.Due()
    assert await due.promote(db, 1000.0) == pytest.approx(100, abs=5)
    await db.rows(_ADVANCE, 100.0)
    assert await due.promote(db, 1000.0) == pytest.approx(100, abs=5)
    assert ((await view(soon)).status, (await view(late)).status) == (JobState.QUEUED, JobState.SCHEDULED)


async def test_a_due_time_in_the_past_means_now(db, noop, view):
    past = datetime.now(UTC) - timedelta(days=1)
    (job,) = await engine.enqueue(db, [NewJob(noop, due_at=past)])
    assert (await view(job.id)).status is JobState.QUEUED


async def test_more_than_a_batch_moves_without_rest(db, enqueue):
    await enqueue(2500, delay=50.0)
    await db.rows(_ADVANCE, 60.0)
    due = engine.Due()
    rests = [await due.promote(db, 9.0) for _ in range(3)]
    assert rests == [0.0, 0.0, 9.0]
    assert (await engine.reads.counts(db)) == {JobState.QUEUED: 2500, JobState.RUNNING: 0}


async def test_a_job_committed_behind_the_mark_is_found_from_the_start(db, enqueue, view):
    await enqueue(delay=50.0)
    due = engine.Due()
    await db.rows(_ADVANCE, 60.0)
    await due.promote(db, 1.0)
    (late,) = await enqueue(delay=50.0)
    await db.rows(_ADVANCE, 4000.0)
    await due.promote(db, 1.0)
    due._start_over_at = 0.0
    await due.promote(db, 1.0)
    assert (await view(late)).status is JobState.QUEUED
