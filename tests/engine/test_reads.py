"""Reads: what people see of jobs, a tenant at a time."""

import pytest

from engine.hands import failed
from windlass import engine
from windlass.engine.reads import Filter
from windlass.model import AttemptStatus, JobState
from windlass.model.errors import UnknownJob, UnknownTenant


@pytest.fixture
async def tenant(db):
    return await engine.reads.tenant_id(db, "default")


@pytest.fixture
async def one_of_each(db, enqueue, hand):
    """A job in every state."""
    made = {}
    worker = await hand()
    for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELED, JobState.DEAD_LETTER):
        (made[state],) = await enqueue()
        (job,) = await worker.claim()
        await worker.settle(job, status=AttemptStatus.FAILED, state=state)
    (made[JobState.RUNNING],) = await enqueue()
    await worker.claim()
    (made[JobState.SCHEDULED],) = await enqueue(delay=60.0)
    (made[JobState.QUEUED],) = await enqueue()
    (made[JobState.BLOCKED],) = await enqueue(depends_on=(made[JobState.RUNNING],))
    return made


async def test_each_state_is_seen_singly_and_in_lists(db, tenant, one_of_each):
    for state, job_id in one_of_each.items():
        assert (await engine.reads.job(db, tenant, job_id)).status is state
        assert [v.id for v in await engine.reads.jobs(db, tenant, Filter([state]), 10)] == [job_id]
    everything = await engine.reads.jobs(db, tenant, Filter(), 50)
    assert {v.id: v.status for v in everything} == {i: s for s, i in one_of_each.items()}


async def test_pages_do_not_overlap_and_miss_nothing(db, tenant, enqueue):
    ids = await enqueue(25)
    pages, before = [], None
    while page := await engine.reads.jobs(db, tenant, Filter(), 10, before):
        pages += [v.id for v in page]
        before = page[-1].id
    assert pages == ids[::-1]


async def test_lists_filter_by_what_was_asked(db, tenant, enqueue):
    (mine,) = await enqueue(correlation_id="order-7", source="event")
    await enqueue(3)
    for wanted in (
        Filter(correlation_id="order-7"),
        Filter(source="event"),
        Filter(correlation_id="order-7", definition_key="noop"),
    ):
        assert [v.id for v in await engine.reads.jobs(db, tenant, wanted, 10)] == [mine]
    assert await engine.reads.jobs(db, tenant, Filter(definition_key="else"), 10) == []


async def test_counts_tell_places_not_history(db, tenant, one_of_each):
    assert await engine.reads.counts(db, tenant) == {
        JobState.QUEUED: 1,
        JobState.RUNNING: 1,
        JobState.SCHEDULED: 1,
        JobState.BLOCKED: 1,
    }


async def test_the_try_in_progress_is_among_the_attempts(db, tenant, enqueue, hand):
    (job_id,) = await enqueue()
    worker = await hand()
    await engine.settle(db, worker.id, [failed((await worker.claim())[0])])
    await worker.claim()
    tries = await engine.reads.attempts(db, tenant, job_id)
    assert [(t.attempt_no, t.status) for t in tries] == [(1, "failed"), (2, "running")]


async def test_a_stranger_sees_nothing(db, make_tenant, one_of_each):
    stranger = await make_tenant("stranger")
    assert await engine.reads.jobs(db, stranger, Filter(), 10) == []
    assert not any((await engine.reads.counts(db, stranger)).values())
    for job_id in one_of_each.values():
        with pytest.raises(UnknownJob):
            await engine.reads.job(db, stranger, job_id)
        assert await engine.reads.outcome(db, stranger, job_id) is None
        assert await engine.reads.attempts(db, stranger, job_id) == []


async def test_an_unknown_tenant_is_said_so(db):
    with pytest.raises(UnknownTenant, match="nobody"):
        await engine.reads.tenant_id(db, "nobody")


async def test_a_list_tells_the_attempts_of_a_retried_job_as_the_job_itself_does(db, tenant, one_of_each):
    job_id = one_of_each[JobState.DEAD_LETTER]
    await engine.retry(db, tenant, [job_id])
    (listed,) = [v for v in await engine.reads.jobs(db, tenant, Filter(), 50) if v.id == job_id]
    single = await engine.reads.job(db, tenant, job_id)
    assert (listed.attempt_count, listed.max_attempts) == (single.attempt_count, single.max_attempts) == (1, 4)
