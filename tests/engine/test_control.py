"""Control: cancel what waits or runs, retry what ended; a stranger's jobs are out of reach."""

import asyncio
from uuid import UUID

import pytest

from engine.hands import failed
from windlass import engine
from windlass.model import AttemptStatus, JobState, NewJob


@pytest.fixture
async def tenant(db):
    return await engine.reads.tenant_id(db, "default")


async def test_a_waiting_job_is_canceled_at_once(db, tenant, enqueue, view, hand):
    (queued,) = await enqueue()
    (scheduled,) = await enqueue(delay=3600.0)
    became = await engine.cancel(db, tenant, [queued, scheduled], "not needed")
    assert became.ended == {queued, scheduled}
    for job_id in (queued, scheduled):
        seen = await view(job_id)
        assert (seen.status, seen.error, seen.attempt_count) == (JobState.CANCELED, "not needed", 0)
    assert await (await hand()).claim(5) == []


async def test_a_running_job_is_asked_and_its_worker_sees_it(db, tenant, enqueue, hand):
    (job_id,) = await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    assert (await engine.cancel(db, tenant, [job_id], "stop it")).asked == {job_id}
    assert await engine.workers.to_cancel(db, worker.id) == [(job_id, job.lease, "stop it")]
    assert (await worker.settle(job, status=AttemptStatus.CANCELED, state=JobState.CANCELED)) == {job.lease}


@pytest.mark.parametrize("end", [
    {"status": AttemptStatus.FAILED, "state": None, "retry_after": 0.0, "error": "boom"},
    {"status": AttemptStatus.TIMEOUT, "state": None, "retry_after": 60.0, "error": "too long"},
    {"status": AttemptStatus.FAILED, "state": None, "retry_after": 60.0, "spends_attempt": False},
])  # fmt: skip
async def test_a_job_asked_to_cancel_does_not_go_back_though_its_worker_has_not_heard(db, tenant, noop, hand, view, end):
    (job_id,) = [one.id for one in await engine.enqueue(db, [NewJob(noop, dedupe_key="k")])]
    (child,) = [one.id for one in await engine.enqueue(db, [NewJob(noop, depends_on=(job_id,))])]
    worker = await hand()
    (job,) = await worker.claim()
    await engine.cancel(db, tenant, [job_id], "stop it")
    assert await worker.settle(job, **end) == {job.lease}
    seen = await view(job_id)
    assert seen.status is JobState.CANCELED
    assert "stop it" in seen.error
    assert end.get("error", "") in seen.error
    assert (await view(child)).status is JobState.CANCELED
    (again,) = await engine.enqueue(db, [NewJob(noop, dedupe_key="k")])
    assert not again.deduplicated


async def test_a_job_asked_to_cancel_ends_when_its_worker_gives_it_back(db, tenant, enqueue, hand, view):
    ids = await enqueue(2)
    (child,) = await enqueue(depends_on=(ids[0],))
    worker = await hand()
    jobs = await worker.claim(2)
    await engine.cancel(db, tenant, [ids[0]], "stop it")
    await worker.release(*jobs)
    assert [(await view(i)).status for i in ids] == [JobState.CANCELED, JobState.QUEUED]
    assert (await view(child)).status is JobState.CANCELED


async def test_a_success_before_the_cancel_was_heard_stays_one(db, tenant, enqueue, hand, view):
    (job_id,) = await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    await engine.cancel(db, tenant, [job_id], "late")
    await worker.settle(job)
    assert (await view(job_id)).status is JobState.SUCCEEDED


async def test_a_retried_job_takes_its_dedupe_key_back_unless_a_living_one_has_it(db, tenant, noop, hand, view):
    worker = await hand()

    async def ended() -> UUID:
        (one,) = await engine.enqueue(db, [NewJob(noop, dedupe_key="k")])
        (job,) = await worker.claim()
        await worker.settle(job, status=AttemptStatus.FAILED, state=JobState.FAILED)
        return one.id

    first, second = await ended(), await ended()
    assert await engine.retry(db, tenant, [first, second]) == {second}
    (known,) = await engine.enqueue(db, [NewJob(noop, dedupe_key="k")])
    assert known == (second, True)
    assert await engine.retry(db, tenant, [first]) == frozenset()
    assert (await view(first)).status is JobState.FAILED


async def test_what_has_ended_is_neither_ended_nor_asked(db, tenant, enqueue, hand):
    (job_id,) = await enqueue()
    worker = await hand()
    await worker.settle(*await worker.claim())
    assert await engine.cancel(db, tenant, [job_id], "late") == (frozenset(), frozenset())


async def test_a_cancel_that_races_a_claim_is_never_lost(db, tenant, enqueue, hand, view):
    ids = await enqueue(200)
    worker = await hand()

    async def claim_all():
        got = []
        while jobs := await worker.claim(7):
            got += jobs
        return got

    claimed, became = await asyncio.gather(claim_all(), engine.cancel(db, tenant, ids, "race"))
    assert became.ended | became.asked == set(ids)
    assert {job.id for job in claimed} == became.asked


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED, JobState.DEAD_LETTER])
async def test_every_end_can_be_retried_with_a_fresh_budget(db, tenant, enqueue, hand, view, state):
    (job_id,) = await enqueue(max_attempts=2)
    worker = await hand()
    (job,) = await worker.claim()
    await worker.settle(job, status=AttemptStatus.FAILED, state=state)
    assert await engine.retry(db, tenant, [job_id]) == {job_id}
    seen = await view(job_id)
    assert (seen.status, seen.attempt_count, seen.max_attempts) == (JobState.QUEUED, 1, 3)
    (again,) = await worker.claim()
    assert again.attempt == 2
    await worker.settle(again, result='"at last"')
    assert ((await view(job_id)).status, (await view(job_id)).result) == (JobState.SUCCEEDED, "at last")
    assert [a.attempt_no for a in await engine.reads.attempts(db, tenant, job_id)] == [1, 2]


async def test_a_job_that_never_ran_can_be_retried_and_canceled_again(db, tenant, enqueue, view):
    (job_id,) = await enqueue()
    for _ in range(3):
        assert (await engine.cancel(db, tenant, [job_id], "x")).ended == {job_id}
        assert await engine.retry(db, tenant, [job_id]) == {job_id}
    assert (await view(job_id)).status is JobState.QUEUED


async def test_a_live_job_cannot_be_retried(db, tenant, enqueue, hand):
    (queued,) = await enqueue(delay=60.0)
    (running,) = await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    assert await engine.retry(db, tenant, [queued, running]) == frozenset()
    await engine.settle(db, worker.id, [failed(job, 60)])
    assert await engine.retry(db, tenant, [running]) == frozenset()


async def test_a_strangers_jobs_are_out_of_reach(db, make_tenant, enqueue, view):
    stranger = await make_tenant("stranger")
    (job_id,) = await enqueue()
    assert await engine.cancel(db, stranger, [job_id], "mine") == (frozenset(), frozenset())
    assert await engine.retry(db, stranger, [job_id]) == frozenset()
    assert (await view(job_id)).status is JobState.QUEUED
