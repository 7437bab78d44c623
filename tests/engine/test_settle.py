"""Settle: what happened is written once, by whoever still holds the lease."""

import asyncio

import pytest

from engine.hands import end_of, failed, held
from windlass import engine
from windlass.db import Statement
from windlass.model import AttemptStatus, JobState


async def test_success_ends_the_job_with_its_result(hand, enqueue, view):
    (job_id,) = await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    assert await worker.settle(job, result='{"ok": true}') == {job.lease}
    seen = await view(job_id)
    assert (seen.status, seen.result, seen.attempt_count) == (JobState.SUCCEEDED, {"ok": True}, 1)
    assert seen.finished_at >= seen.started_at >= seen.queued_at


async def test_a_failed_try_waits_and_keeps_its_error(db, hand, enqueue, view):
    (job_id,) = await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    await engine.settle(db, worker.id, [failed(job, 3600)])
    seen = await view(job_id)
    assert (seen.status, seen.error, seen.attempt_count) == (JobState.SCHEDULED, "no", 1)


async def test_a_retry_at_once_is_claimable_at_once(db, hand, enqueue):
    await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    await engine.settle(db, worker.id, [failed(job)])
    (again,) = await worker.claim()
    assert (again.id, again.attempt) == (job.id, 2)


async def test_a_snooze_spends_nothing_and_leaves_no_trace(db, hand, enqueue, view):
    (job_id,) = await enqueue()
    worker = await hand()
    for _ in range(5):
        (job,) = await worker.claim()
        await engine.settle(db, worker.id, [failed(job, spends_attempt=False)])
    assert (await view(job_id)).attempt_count == 0
    assert await engine.reads.attempts(db, job.tenant_id, job_id) == []


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELED, JobState.DEAD_LETTER])
async def test_other_ends_keep_what_is_known(db, hand, enqueue, view, state):
    (job_id,) = await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    await worker.settle(
        job,
        status=AttemptStatus.FAILED,
        state=state,
        error="why",
        exit_code=3,
        cost_cents=7,
        stdout_tail="out",
        stderr_tail="err",
    )
    seen = await view(job_id)
    assert (seen.status, seen.error, seen.cost_cents) == (state, "why", 7)
    (attempt,) = await engine.reads.attempts(db, job.tenant_id, job_id)
    assert (attempt.exit_code, attempt.stdout_tail, attempt.stderr_tail) == (3, "out", "err")


async def test_a_late_worker_changes_nothing(db, hand, enqueue, view):
    """The lease went to another; every write of the first is refused, and it is told so."""
    (job_id,) = await enqueue()
    late, other = await hand(), await hand()
    (old,) = await late.claim()
    await engine.workers.replace(db, late.id)
    (new,) = await other.claim()
    assert await late.settle(old, result='"late"') == set()
    assert await engine.settle(db, late.id, [failed(old)]) == set()
    await late.release(old)
    await engine.progress(db, late.id, [(held(old), 0.9, "late")])
    assert await engine.extend(db, late.id, [held(old)]) == set()
    assert (await view(job_id)).progress is None
    assert await other.settle(new, result='"mine"') == {new.lease}
    assert (await view(job_id)).result == "mine"


async def test_the_same_worker_with_the_same_attempt_number_is_fenced_too(db, hand, enqueue):
    """After a release the attempt number comes again; only the lease's number tells the two claims apart."""
    await enqueue()
    worker = await hand()
    (old,) = await worker.claim()
    await worker.release(old)
    (new,) = await worker.claim()
    assert new.attempt == old.attempt
    assert await worker.settle(old) == set()
    assert await worker.settle(new) == {new.lease}


async def test_a_lease_number_that_is_given_out_twice_does_not_let_the_first_holder_write(db, hand, enqueue, view):
    """A failover may lose commits, and with them how far the sequence was."""
    (job_id,) = await enqueue()
    late, other = await hand(), await hand()
    (old,) = await late.claim()
    await engine.workers.replace(db, late.id)
    await db.value(Statement("tests.back", "select setval('windlass.lease_numbers', $1, false)"), old.lease)
    (new,) = await other.claim()
    assert new.lease == old.lease
    assert await late.settle(old, result='"late"') == set()
    await late.release(old)
    assert await other.settle(new, result='"mine"') == {new.lease}
    assert (await view(job_id)).result == "mine"


async def test_one_of_many_racing_ends_counts(db, hand, enqueue):
    await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    ends = [end_of(job, result=str(n)) for n in range(10)] + [failed(job) for _ in range(10)]
    told = await asyncio.gather(*(engine.settle(db, worker.id, [end]) for end in ends))
    assert sum(job.lease in held for held in told) == 1
    attempts = await engine.reads.attempts(db, job.tenant_id, job.id)
    assert len(attempts) == 1


async def test_a_batch_mixes_all_ends(db, hand, enqueue, view):
    ids = await enqueue(4)
    worker = await hand()
    jobs = {job.id: job for job in await worker.claim(4)}
    a, b, c, d = (jobs[i] for i in ids)
    held = await engine.settle(
        db,
        worker.id,
        [
            end_of(a, result="1"),
            failed(b, 60),
            end_of(c, status=AttemptStatus.TIMEOUT, state=JobState.DEAD_LETTER, error="t"),
            end_of(d, exit_code=0),
        ],
    )
    assert held == {job.lease for job in jobs.values()}
    assert [(await view(i)).status for i in ids] == ["succeeded", "scheduled", "dead_letter", "succeeded"]


async def test_the_end_of_a_job_frees_its_dedupe_key(db, hand, enqueue, noop):
    await enqueue(dedupe_key="k")
    worker = await hand()
    (job,) = await worker.claim()
    (again,) = await enqueue(dedupe_key="k")
    assert again == job.id
    await worker.settle(job)
    (new,) = await enqueue(dedupe_key="k")
    assert new != job.id


async def test_a_dedupe_window_outlives_its_job(db, hand, enqueue):
    await enqueue(dedupe_key="k", dedupe_window=3600.0)
    worker = await hand()
    (job,) = await worker.claim()
    await worker.settle(job)
    assert await enqueue(dedupe_key="k") == [job.id]
