"""Enqueue: a job comes to be, once, in the caller's transaction."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from windlass import engine
from windlass.db import Database, Statement
from windlass.model import JobState, NewJob
from windlass.model.errors import InactiveDefinition, NotStorable, UnknownDefinition, UnknownJob, UnknownTenant

_WAITS = Statement(
    "tests.waits", "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
)
_WINDOW_PASSES = Statement("tests.window_passes", "update windlass.dedupe set until = clock_timestamp()")
_PLACES = Statement(
    "tests.places",
    """
select count(*), count(distinct job_id)
from (select job_id from windlass.queue union all select job_id from windlass.parked) p""",
)


async def test_jobs_that_come_due_while_they_are_stored_are_in_one_place_each(db, noop):
    for milliseconds in (0, 1, 5, 20, 60):
        await engine.enqueue(db, [NewJob(noop, delay=milliseconds / 1000) for _ in range(3000)])
    assert tuple(await db.row(_PLACES)) == (15_000, 15_000)


async def test_a_job_waits_in_the_queue(db, noop, view):
    (job,) = await engine.enqueue(db, [NewJob(noop, '{"n": 1}')])
    seen = await view(job.id)
    assert (seen.status, seen.payload, seen.attempt_count) == (JobState.QUEUED, {"n": 1}, 0)


async def test_many_jobs_come_back_in_their_order(db, noop, view):
    jobs = await engine.enqueue(db, [NewJob(noop, f'{{"n": {n}}}') for n in range(12_000)])
    for n in (0, 1, 4_999, 5_000, 11_999):
        assert (await view(jobs[n].id)).payload == {"n": n}


async def test_a_delayed_job_is_scheduled(db, noop, view):
    due = datetime.now(UTC) + timedelta(hours=1)
    later, at = await engine.enqueue(db, [NewJob(noop, delay=60), NewJob(noop, due_at=due)])
    assert (await view(later.id)).status is JobState.SCHEDULED
    assert (await view(at.id)).scheduled_for == due


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (NewJob("no-such-key"), UnknownDefinition),
        (NewJob("noop", tenant="nobody"), UnknownTenant),
        (NewJob("noop", depends_on=(uuid4(),)), UnknownJob),
        (NewJob("no-such-key", dedupe_key="k"), UnknownDefinition),
    ],
)
async def test_one_wrong_job_means_that_none_is_stored(db, noop, wrong, error):
    with pytest.raises(error):
        await engine.enqueue(db, [NewJob(noop), wrong, NewJob(noop)])
    assert await engine.reads.counts(db) == {JobState.RUNNING: 0, JobState.QUEUED: 0}


async def test_a_definition_that_is_switched_off_takes_no_jobs(db, noop):
    await engine.registry.override(db, noop, {"is_active": False})
    for job in (NewJob(noop), NewJob(noop, dedupe_key="k")):
        with pytest.raises(InactiveDefinition):
            await engine.enqueue(db, [job])


@pytest.fixture
def single(db: Database):
    """Enqueue single jobs as an app does, which remembers what it looked up."""

    async def opened() -> Database:
        return db

    return engine.Grouping(opened).enqueue


async def test_what_is_remembered_of_a_definition_is_dropped_when_it_changes(db, noop, single, view):
    assert (await view((await single(NewJob(noop))).id)).priority == 100
    assert (await view((await single(NewJob(noop, priority=7, max_attempts=2))).id)).priority == 7
    await engine.registry.override(db, noop, {"priority": 5, "max_attempts": 9})
    changed = await view((await single(NewJob(noop))).id)
    assert (changed.priority, changed.max_attempts) == (5, 9)
    await engine.registry.override(db, noop, {"is_active": False})
    with pytest.raises(InactiveDefinition):
        await single(NewJob(noop))


async def test_single_jobs_of_many_tenants_are_each_their_own(db, noop, single, view, make_tenant):
    slugs = ["one", "two", "three"]
    for slug in slugs:
        await make_tenant(slug)
    jobs = [(slug, await single(NewJob(noop, tenant=slug))) for slug in slugs * 2]
    assert [(await view(job.id)).tenant for _, job in jobs] == [slug for slug, _ in jobs]
    with pytest.raises(UnknownTenant):
        await single(NewJob(noop, tenant="nobody"))
    with pytest.raises(UnknownDefinition):
        await single(NewJob("nonsense"))


async def test_what_is_rolled_back_never_was(db, noop):
    with pytest.raises(RuntimeError):
        async with db.transaction() as tx:
            await engine.enqueue(tx, [NewJob(noop), NewJob(noop, dedupe_key="k")])
            raise RuntimeError
    assert not any((await engine.reads.counts(db)).values())
    (again,) = await engine.enqueue(db, [NewJob(noop, dedupe_key="k")])
    assert not again.deduplicated


async def test_fifty_at_once_with_one_key_are_one_job(db, noop):
    done = await asyncio.gather(*(engine.enqueue(db, [NewJob(noop, dedupe_key="same")]) for _ in range(50)))
    assert len({one[0].id for one in done}) == 1
    assert sum(not one[0].deduplicated for one in done) == 1


async def test_a_key_held_by_a_transaction_that_rolls_back_is_free_for_the_one_that_waits(db, noop, view):
    holding, let_go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        with pytest.raises(RuntimeError):
            async with db.transaction() as tx:
                await engine.enqueue(tx, [NewJob(noop, dedupe_key="k")])
                holding.set()
                await let_go.wait()
                raise RuntimeError

    holder = asyncio.create_task(hold())
    await holding.wait()
    waiter = asyncio.create_task(engine.enqueue(db, [NewJob(noop, dedupe_key="k")]))
    async with asyncio.timeout(10):
        while not await db.value(_WAITS):
            await asyncio.sleep(0.01)
    let_go.set()
    await holder
    (job,) = await waiter
    assert not job.deduplicated
    assert (await view(job.id)).status is JobState.QUEUED


async def test_tenants_do_not_share_dedupe_keys(db, noop, make_tenant):
    await make_tenant("acme")
    one, two = await engine.enqueue(db, [NewJob(noop, dedupe_key="k"), NewJob(noop, dedupe_key="k", tenant="acme")])
    assert one.id != two.id


async def test_who_finds_a_key_taken_and_stays_in_his_transaction_keeps_no_end_waiting(db, noop, hand, view):
    (first,) = await engine.enqueue(db, [NewJob(noop, dedupe_key="k")])
    worker = await hand()
    (job,) = await worker.claim()
    async with db.transaction() as tx, asyncio.timeout(10):
        assert await engine.enqueue(tx, [NewJob(noop, dedupe_key="k")]) == [(first.id, True)]
        await worker.settle(job)
        assert (await view(first.id)).status is JobState.SUCCEEDED


async def test_a_key_whose_window_has_passed_is_taken_by_one_of_many(db, noop, hand):
    (first,) = await engine.enqueue(db, [NewJob(noop, dedupe_key="k", dedupe_window=1000)])
    worker = await hand()
    await worker.settle(*await worker.claim())
    assert (await engine.enqueue(db, [NewJob(noop, dedupe_key="k")]))[0] == (first.id, True)
    await db.rows(_WINDOW_PASSES)
    done = await asyncio.gather(*(engine.enqueue(db, [NewJob(noop, dedupe_key="k")]) for _ in range(20)))
    assert len({one[0].id for one in done}) == 1
    assert first.id not in {one[0].id for one in done}


async def test_batches_with_the_same_keys_in_other_orders_do_not_hold_each_other_up(db, noop):
    keys = [f"k{n}" for n in range(40)]
    batches = [[NewJob(noop, dedupe_key=key) for key in random.sample(keys, len(keys))] for _ in range(8)]
    done = await asyncio.gather(*(engine.enqueue(db, batch) for batch in batches))
    assert len({one.id for batch in done for one in batch}) == len(keys)


@pytest.mark.parametrize(
    "wrong", ["scheduled_for => 'infinity'", "delay => '101 years'", "max_attempts => 0", "max_attempts => 2147483647"]
)
async def test_numbers_and_times_beyond_all_bounds_are_refused_in_sql(db, noop, wrong):
    with pytest.raises(NotStorable):
        await db.rows(Statement("tests.wrong", f"select windlass.enqueue('noop', {wrong})"))
