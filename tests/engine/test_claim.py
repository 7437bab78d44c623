"""Claim: each waiting job goes to one worker, in order, tenants in turn."""

import asyncio
from collections import Counter
from uuid import UUID

from windlass import engine
from windlass.db import Statement
from windlass.model import Definition, JobState, NewJob

_MANY_TENANTS = Statement(
    "tests.many_tenants",
    "insert into windlass.tenants (slug, name) select 't' || n, 't' || n from generate_series(1, $1::int) n returning slug",
)


async def test_jobs_come_by_priority_then_by_arrival(hand, enqueue):
    first, second = await enqueue(2)
    (urgent,) = await enqueue(priority=1)
    (late,) = await enqueue(priority=200)
    worker = await hand()
    assert [job.id for job in await worker.claim(10)] == [urgent, first, second, late]


async def test_a_claim_never_takes_more_than_asked_for_whatever_the_planner_does(db, hand, enqueue, noop):
    await enqueue(3000)
    worker = await hand()
    async with db.transaction() as tx:
        await tx.script(
            "set local enable_hashjoin = on; set local enable_nestloop = off; set local enable_indexscan = off;"
            "set local enable_seqscan = on; set local enable_bitmapscan = off; set local plan_cache_mode = auto"
        )
        for want in (1, 7, 100, 500, 3):
            assert len(await worker.claims.take(tx, want, None)) == want


async def test_two_workers_never_get_the_same_job(hand, enqueue):
    ids = await enqueue(2000)
    workers = [await hand() for _ in range(8)]

    async def empty(worker):
        got = []
        while jobs := await worker.claim(50):
            got += [job.id for job in jobs]
        return got

    taken = [one for got in await asyncio.gather(*(empty(w) for w in workers)) for one in got]
    assert Counter(taken) == Counter(ids)


async def test_a_claim_spends_an_attempt_and_a_release_gives_it_back(hand, enqueue, view):
    (job_id,) = await enqueue()
    worker = await hand()
    (job,) = await worker.claim()
    assert (await view(job_id)).status is JobState.RUNNING
    assert (job.attempt, (await view(job_id)).attempt_count) == (1, 1)
    await worker.release(job)
    assert ((await view(job_id)).status, (await view(job_id)).attempt_count) == (JobState.QUEUED, 0)
    (again,) = await worker.claim()
    assert again.attempt == 1
    assert again.lease != job.lease


async def test_jobs_of_unknown_definitions_are_left_for_others(db, hand, enqueue):
    await engine.registry.sync(db, "tests", [Definition("other")])
    (other,) = await engine.enqueue(db, [NewJob("other")])
    (mine,) = await enqueue()
    known = await engine.registry.effective(db)
    worker = await hand()
    assert [job.id for job in await worker.claim(10, [UUID(known["noop"].id)])] == [mine]
    assert [job.id for job in await worker.claim(10)] == [other.id]


async def test_tenants_take_turns_whatever_their_backlog(db, hand, enqueue, make_tenant):
    tenants = [await make_tenant(f"t{n}") for n in range(4)]
    await enqueue(1000, tenant="t0")
    for n in (1, 2, 3):
        await enqueue(50, tenant=f"t{n}")
    worker = await hand()
    got = Counter([job.tenant_id for _ in range(4) for job in await worker.claim(40)])
    assert {got[tenant] for tenant in tenants} == {40}


async def test_a_heavier_tenant_gets_more_turns(hand, enqueue, make_tenant):
    light, heavy = await make_tenant("light"), await make_tenant("heavy", 3)
    await enqueue(400, tenant="light")
    await enqueue(400, tenant="heavy")
    worker = await hand()
    got = Counter([job.tenant_id for _ in range(5) for job in await worker.claim(40)])
    assert (got[light], got[heavy]) == (50, 150)


async def test_a_newcomer_is_served_a_claim_after_it_is_seen(hand, enqueue, make_tenant):
    await make_tenant("big")
    await make_tenant("new")
    await enqueue(5000, tenant="big")
    worker = await hand()
    await worker.claim(100)
    (newcomer,) = await enqueue(tenant="new")
    worker.claims._turns._discover_at = 0.0
    soon = [job.id for _ in range(2) for job in await worker.claim(100)]
    assert newcomer in soon


async def test_more_tenants_than_one_look_can_tell_are_all_served_before_any_is_served_again(hand, db, noop):
    slugs = [row[0] for row in await db.rows(_MANY_TENANTS, 1200)]
    await engine.enqueue(db, [NewJob(noop, tenant=slug) for _ in range(5) for slug in slugs])
    worker = await hand()
    got = Counter()
    while sum(got.values()) < 6000:
        got.update(job.tenant_id for job in await worker.claim(100))
        assert max(got.values()) <= 5
    assert set(got.values()) == {5}


async def test_a_tenant_of_a_later_page_is_served_while_the_first_is_never_done(hand, db, noop):
    slugs = [row[0] for row in await db.rows(_MANY_TENANTS, 1001)]
    await engine.enqueue(db, [NewJob(noop, tenant=slug) for _ in range(20) for slug in slugs])
    worker = await hand()
    got = Counter()
    for _ in range(100):
        worker.claims._turns._discover_at = 0.0
        got.update(job.tenant_id for job in await worker.claim(100))
    assert len(got) == 1001


async def test_a_worker_woken_for_whom_it_served_last_asks_once(hand, db, enqueue):
    await enqueue()
    worker = await hand()
    while await worker.claim(10):
        pass
    (job_id,) = await enqueue()
    asked = []

    class Heard:
        async def rows(self, statement, *values):
            asked.append(statement.name)
            return await db.rows(statement, *values)

    assert [job.id for job in await worker.claims.take(Heard(), 10, None)] == [job_id]
    assert asked == ["engine.claim"]


async def test_what_comes_up_behind_a_remembered_position_is_found(db, hand, enqueue):
    """A slow head makes claims start where the last one ended; a better priority must still be found."""
    await enqueue(100)
    worker = await hand()
    await worker.claim(50)
    worker.claims._turns._head.allowed_at = float("inf")
    (urgent,) = await enqueue(priority=1)
    assert urgent not in [job.id for job in await worker.claim(50)]
    worker.claims._turns._head.allowed_at = 0.0
    assert [job.id for job in await worker.claim(50)] == [urgent]


async def test_queues_are_claimed_apart(db, hand, enqueue):
    await engine.registry.sync(db, "tests", [Definition("mail", queue="mail")])
    (letter,) = await engine.enqueue(db, [NewJob("mail")])
    (plain,) = await enqueue()
    assert [job.id for job in await (await hand(queue="mail")).claim(5)] == [letter.id]
    assert [job.id for job in await (await hand()).claim(5)] == [plain]


async def test_a_dead_hand_elsewhere_does_not_block(db, hand, enqueue):
    """Rows locked by a claim in progress are passed over, not waited for."""
    ids = await enqueue(10)
    one, two = await hand(), await hand()
    async with db.transaction() as tx:
        held = {job.id for job in await one.claims.take(tx, 4, None)}
        rest = {job.id for job in await asyncio.wait_for(two.claim(10), 5)}
    assert held | rest == set(ids)
    assert not held & rest
