"""Definitions: what the code says, version beside version, and what people changed."""

import asyncio
from uuid import uuid4

import pytest

from windlass import engine
from windlass.db import Statement
from windlass.model import Backoff, Definition, NewJob, WorkerInfo
from windlass.model.errors import InactiveDefinition, UsageError

OLD, NEW = Definition("old"), Definition("new")
_INSERT_QUEUE = Statement("tests.insert_queue", "insert into windlass.queues (name) values ($1) returning id")
_WAITING = Statement(
    "tests.waiting",
    "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')",
)


@pytest.fixture
def works(db):
    """A worker that lives and does these."""

    async def join(*keys: str):
        info = WorkerInfo(uuid4(), uuid4().hex, "host", 1, "0", ("default",), keys, 10)
        await engine.workers.join(db, info)
        return info.id

    return join


async def test_an_older_version_that_restarts_leaves_what_only_the_newer_one_has(db, works):
    await engine.registry.sync(db, "jobs", [OLD, NEW], complete=True)
    newer = await works("old", "new")
    await engine.registry.sync(db, "jobs", [OLD], complete=True)
    await engine.enqueue(db, [NewJob("new")])
    await engine.workers.leave(db, newer)
    await engine.registry.sync(db, "jobs", [OLD], complete=True)
    with pytest.raises(InactiveDefinition):
        await engine.enqueue(db, [NewJob("new")])


async def test_what_left_the_code_is_retired_once_the_last_worker_that_does_it_has_ended(db, works):
    await engine.registry.sync(db, "jobs", [OLD, NEW], complete=True)
    older = await works("old")
    await engine.registry.sync(db, "jobs", [NEW], complete=True)
    gone = await engine.registry.gone(db, "jobs", [NEW])
    assert gone == ["old"]
    assert await engine.registry.retire(db, "jobs", gone) == ["old"]
    await engine.workers.leave(db, older)
    assert await engine.registry.retire(db, "jobs", gone) == []
    assert (await engine.registry.effective(db))["old"].deleted_from_code


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"max_attempts": "abc"}, "whole number from 1"),
        ({"max_attempts": 0}, "whole number from 1"),
        ({"max_attempts": True}, "whole number from 1"),
        ({"priority": 2**40}, "whole number"),
        ({"priority": 1.5}, "whole number"),
        ({"timeout_seconds": 0}, "above 0"),
        ({"timeout_seconds": float("nan")}, "above 0"),
        ({"backoff": {"kind": "fixed", "dealy_seconds": 3}}, "delay_seconds"),
        ({"backoff": {"kind": ["fixed"]}}, "kind"),
        ({"backoff": {"delay_seconds": "3"}}, "delay_seconds"),
        ({"backoff": 3}, "an object"),
        ({"is_active": "no"}, "true or false"),
        ({"queue": "no good"}, "letters"),
        ({"argv": ["rm"]}, "cannot be overridden"),
        ({"priority": 5, "prioritty": 6}, "cannot be overridden"),
    ],
    ids=str,
)
async def test_an_override_that_no_worker_could_read_is_refused(db, noop, overrides, told):
    before = await engine.registry.effective(db)
    with pytest.raises(UsageError, match=told):
        await engine.registry.override(db, noop, overrides)
    assert await engine.registry.effective(db) == before


async def test_overrides_count_and_a_none_takes_one_back(db, noop):
    backoff = {"kind": "fixed", "delay_seconds": 1}
    told = {"priority": -3, "max_attempts": 7, "timeout_seconds": 0.5, "backoff": backoff, "retention_days": 3}
    assert await engine.registry.override(db, noop, told)
    seen = (await engine.registry.effective(db))[noop]
    assert (seen.priority, seen.max_attempts, seen.timeout_seconds, seen.backoff) == (-3, 7, 0.5, Backoff("fixed", 1))
    assert await engine.registry.override(db, noop, dict.fromkeys(told))
    seen = (await engine.registry.effective(db))[noop]
    assert (seen.priority, seen.max_attempts, seen.backoff) == (100, 3, Backoff())


async def test_a_job_goes_to_the_queue_that_an_override_names_for_the_first_time(db, noop, hand):
    await engine.registry.override(db, noop, {"queue": "elsewhere"})
    (job,) = await engine.enqueue(db, [NewJob(noop)])
    assert [one.id for one in await (await hand(queue="elsewhere")).claim()] == [job.id]


async def test_a_queue_that_somebody_else_makes_at_the_same_moment_has_its_id(db):
    async with db.transaction() as tx:
        made = await tx.value(_INSERT_QUEUE, "fresh")
        asked = asyncio.create_task(engine.registry.queue_ids(db, ["default", "fresh"]))
        async with asyncio.timeout(10):
            while not await db.value(_WAITING):
                await asyncio.sleep(0.01)
    assert (await asked)["fresh"] == made
