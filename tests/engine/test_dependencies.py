"""Dependencies: B waits for A, and goes on in the commit that ends A."""

import asyncio
import random

import pytest

from windlass import engine
from windlass.model import AttemptStatus, JobState, NewJob
from windlass.model.errors import UnknownJob


async def test_a_job_goes_on_when_its_last_parent_has_succeeded(enqueue, hand, view):
    a, b = await enqueue(2)
    (child,) = await enqueue(depends_on=(a, b))
    seen = await view(child)
    assert seen.status is JobState.BLOCKED
    assert "waits for 2 job(s)" in seen.waiting_on["text"]
    worker = await hand()
    one, two = await worker.claim(2)
    await worker.settle(one)
    assert (await view(child)).status is JobState.BLOCKED
    await worker.settle(two)
    assert [job.id for job in await worker.claim(5)] == [child]


async def test_both_parents_ending_at_the_same_moment_release_the_child_once(db, enqueue, hand):
    worker = await hand()
    for _ in range(20):
        a, b = await enqueue(2)
        (child,) = await enqueue(depends_on=(a, b))
        one, two = await worker.claim(2)
        await asyncio.gather(worker.settle(one), worker.settle(two))
        (job,) = await worker.claim(5)
        assert job.id == child
        await worker.settle(job)


async def test_parents_that_ended_before_are_seen(db, enqueue, hand, view):
    (parent,) = await enqueue()
    worker = await hand()
    await worker.settle(*await worker.claim())
    (child,) = await enqueue(depends_on=(parent,))
    await engine.recheck_blocked(db, 1.0)
    assert (await view(child)).status is JobState.QUEUED


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.DEAD_LETTER, JobState.CANCELED])
async def test_what_depends_on_a_failure_is_canceled_down_the_line(enqueue, hand, view, state):
    (parent,) = await enqueue()
    (child,) = await enqueue(depends_on=(parent,))
    (grandchild,) = await enqueue(depends_on=(child,))
    worker = await hand()
    (job,) = await worker.claim()
    await worker.settle(job, status=AttemptStatus.FAILED, state=state)
    for job_id in (child, grandchild):
        assert (await view(job_id)).status is JobState.CANCELED
    assert str(parent) in (await view(child)).error


async def test_an_enqueue_committed_after_its_parent_ended_is_found_by_the_recheck(db, enqueue, hand, view, noop):
    """The parent's end cannot see the child, nor the child the parent's end: only a later look can."""
    (parent,) = await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    async with db.transaction() as tx:
        (child,) = await engine.enqueue(tx, [NewJob(noop, depends_on=(parent,))])
        await worker.settle(job)
    await engine.recheck_blocked(db, 1.0)
    assert (await view(child.id)).status is JobState.QUEUED


async def test_a_delay_counts_after_the_parents(enqueue, hand, view):
    (parent,) = await enqueue()
    (child,) = await enqueue(depends_on=(parent,), delay=3600.0)
    worker = await hand()
    await worker.settle(*await worker.claim())
    assert (await view(child)).status is JobState.SCHEDULED


async def test_a_blocked_job_can_be_canceled(db, enqueue, view, hand):
    (parent,) = await enqueue()
    (child,) = await enqueue(depends_on=(parent,))
    await engine.cancel(db, (await view(child)).tenant_id, [child], "no")
    worker = await hand()
    await worker.settle(*await worker.claim())
    assert (await view(child)).status is JobState.CANCELED


async def test_another_tenants_job_cannot_be_waited_for(enqueue, make_tenant):
    await make_tenant("other")
    (foreign,) = await enqueue(tenant="other")
    with pytest.raises(UnknownJob):
        await enqueue(depends_on=(foreign,))


async def test_a_long_line_is_canceled_to_its_end(db, enqueue, hand, view, noop):
    (first,) = await enqueue()
    last = first
    for _ in range(300):
        ((last, _),) = await engine.enqueue(db, [NewJob(noop, depends_on=(last,))])
    worker = await hand()
    (job,) = await worker.claim()
    await worker.settle(job, status=AttemptStatus.FAILED, state=JobState.FAILED)
    assert (await view(last)).status is JobState.CANCELED


async def test_parents_that_end_in_many_ways_at_once_do_not_hold_each_other_up(db, enqueue, hand, view):
    """Ends, cancels and rechecks of jobs that share children, all at the same moment: each is done, none is refused."""
    worker = await hand()
    tenant = await engine.reads.tenant_id(db, "default")
    for _ in range(10):
        parents = await enqueue(12)
        jobs = {job.id: job for job in await worker.claim(12)}
        children = [(await enqueue(depends_on=tuple(random.sample(parents, 4))))[0] for _ in range(24)]
        work = [worker.settle(jobs[p], status=s, state=s) for p, s in zip(parents, ["succeeded", "failed"] * 6, strict=True)]
        work += [engine.cancel(db, tenant, random.sample(children, 6), "no") for _ in range(4)]
        work += [engine.recheck_blocked(db, 1.0) for _ in range(4)]
        random.shuffle(work)
        await asyncio.gather(*work)
        assert {(await view(child)).status for child in children} <= {JobState.CANCELED, JobState.QUEUED}
        await worker.settle(*await worker.claim(50))
