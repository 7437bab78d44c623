"""Prune: weeks are made ahead and dropped whole, but never with a live job in them."""

import asyncio
from datetime import UTC, datetime, timedelta

from windlass import engine, logs
from windlass.db import Statement
from windlass.model import Definition

_OLD_JOB = """
with old as (select windlass.uuid7_from($1::timestamptz) as id), j as (
  insert into windlass.jobs (id, tenant_id, definition_id, queue_id, priority, max_attempts, payload)
  select old.id, t.id, d.id, q.id, 100, 3, '{}' from old, windlass.tenants t, windlass.definitions d, windlass.queues q
  returning *)
"""
_LIVE = Statement(
    "tests.old_live",
    _OLD_JOB
    + """
insert into windlass.queue select queue_id, tenant_id, priority, id, definition_id, 0, 3, 0 from j returning job_id""",
)
_ENDED = Statement(
    "tests.old_ended",
    _OLD_JOB
    + """
insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, status, state, finished_at)
select id, 1, tenant_id, definition_id, 'succeeded', 'succeeded', $1 from j returning job_id""",
)
_AGED = Statement("tests.aged", "update windlass.attempts set finished_at = now() - interval '40 days' where job_id = $1")
_LINE = Statement(
    "tests.line", "insert into windlass.job_logs select t.id, windlass.uuid7(), 1, 1, $1, 'info', 'x' from windlass.tenants t"
)
_PARTITION = "create table windlass.{t}_p{day:%Y%m%d} partition of windlass.{t} for values from (windlass.uuid7_from('{day}')) to (windlass.uuid7_from('{end}'))"


async def old_week(db, weeks: int):
    today = datetime.now(UTC).date()
    monday = today - timedelta(days=today.weekday(), weeks=weeks)
    async with db.transaction() as tx:
        for table in ("jobs", "attempts"):
            await tx.script(_PARTITION.format(t=table, day=monday, end=monday + timedelta(days=7)))
    return datetime(monday.year, monday.month, monday.day, 12, tzinfo=UTC)


async def test_partitions_are_made_once_and_ahead(db):
    assert await engine.prune.make_partitions(db) == []
    assert len(await engine.prune.make_partitions(db, ahead=6)) == 4
    assert await logs.make_partitions(db, ahead=5) != []


async def test_an_old_week_goes_and_a_young_one_stays(db, noop):
    await db.value(_ENDED, await old_week(db, 10))
    await old_week(db, 2)
    assert len(await engine.prune.drop_old(db, 30)) == 2
    assert await engine.prune.drop_old(db, 30) == []


async def test_a_week_with_a_live_job_stays_until_the_job_has_ended(db, noop, hand, view):
    job_id = await db.value(_LIVE, await old_week(db, 10))
    assert await engine.prune.drop_old(db, 30) == []
    worker = await hand()
    (job,) = await worker.claim()
    assert job.id == job_id
    assert await engine.prune.drop_old(db, 30) == []
    await worker.settle(job)
    assert await engine.prune.drop_old(db, 30) == [], "it ended just now: that is history to be kept"
    await db.rows(_AGED, job_id)
    assert len(await engine.prune.drop_old(db, 30)) == 2


async def test_a_week_stays_for_as_long_as_a_definition_wants_its_history(db):
    await engine.registry.sync(db, "tests", [Definition("noop", retention_days=100)])
    await db.value(_ENDED, await old_week(db, 10))
    assert await engine.prune.drop_old(db, 30) == []
    await engine.registry.sync(db, "tests", [Definition("noop")])
    assert len(await engine.prune.drop_old(db, 30)) == 2


async def test_who_reads_for_long_keeps_no_claim_waiting_for_a_week_to_be_made(db, enqueue, hand):
    await enqueue()
    worker = await hand()
    async with db.transaction() as reader:
        await reader.value(Statement("tests.read", "select count(*) from windlass.jobs"))
        async with asyncio.timeout(10):
            assert await engine.prune.make_partitions(db, ahead=6) == []
            assert len(await worker.claim()) == 1
    assert len(await engine.prune.make_partitions(db, ahead=6)) == 4


async def test_a_clock_that_jumped_costs_no_job(db, noop):
    """An id outside all weeks lands in the default partition."""
    assert await db.value(_ENDED, datetime(1999, 1, 1, tzinfo=UTC)) is not None


async def test_old_log_days_go(db):
    async with db.transaction() as tx:
        await tx.script(
            "create table windlass.job_logs_p20200101 partition of windlass.job_logs for values from ('2020-01-01Z') to ('2020-01-02Z')"
        )
    assert await logs.drop_old(db) == ["job_logs_p20200101"]


async def test_a_line_of_a_day_to_come_does_not_keep_its_day_from_being_made(db):
    """A worker's clock was ahead, or nobody made days for a while."""
    await db.rows(_LINE, datetime.now(UTC) + timedelta(days=5))
    assert len(await logs.make_partitions(db, ahead=6)) == 3


async def test_lines_that_strayed_go_when_they_are_old(db):
    await db.rows(_LINE, datetime(2020, 1, 1, tzinfo=UTC))
    await logs.drop_old(db)
    assert await db.value(Statement("tests.lines", "select count(*) from windlass.job_logs")) == 0


async def test_a_held_reader_makes_a_drop_wait_for_another_day(db, noop):
    await old_week(db, 10)
    async with db.transaction() as reader:
        await reader.value(Statement("tests.read", "select count(*) from windlass.jobs"))
        assert await engine.prune.drop_old(db, 30) == []
    assert len(await engine.prune.drop_old(db, 30)) == 2


async def test_a_week_that_was_missing_when_it_began_takes_its_strays_over(db, noop, view):
    job_id = await db.value(_ENDED, datetime.now(UTC) + timedelta(weeks=6))
    assert len(await engine.prune.make_partitions(db, ahead=7)) == 6
    where = Statement("tests.where", "select tableoid::regclass::text from windlass.attempts where job_id = $1")
    assert "_p20" in await db.value(where, job_id)
    assert (await view(job_id)).status == "succeeded"


async def test_a_week_that_has_passed_unmade_is_made_for_its_strays(db, noop, view):
    job_id = await db.value(_ENDED, datetime.now(UTC) - timedelta(weeks=3))
    assert len(await engine.prune.make_partitions(db)) == 6
    assert (await view(job_id)).status == "succeeded"


async def test_made_weeks_have_the_indexes_of_their_table(db):
    count = Statement("tests.indexes", "select count(*) from pg_indexes where schemaname = 'windlass' and tablename = $1")
    name = (await engine.prune.make_partitions(db, ahead=6))[0]
    assert await db.value(count, name) == await db.value(count, "jobs_default")
