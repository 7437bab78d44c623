"""`windlass.testing`, as a product's tests use it."""

import os
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from windlass import Windlass
from windlass.db import Statement
from windlass.model import JobState
from windlass.model.errors import UsageError
from windlass.testing import _make_template, _run, _template_name, drain, enqueued

app = Windlass(name="shop")
sent: list[int] = []


@app.job
async def send_welcome(user_id: int) -> None:
    sent.append(user_id)


@app.job
async def later(user_id: int) -> None: ...


@app.job(process=True)
def elsewhere() -> int:
    return os.getpid()


@app.job
async def moved(who: UUID, tenant: str = "", job: str = "") -> None: ...


async def test_a_products_test_reads_like_this(windlass_url):
    sent.clear()
    async with app:
        await send_welcome.enqueue(user_id=1)
        handle = await later.options(delay="1h").enqueue(user_id=1)
        assert await enqueued(app, send_welcome, user_id=1)
        assert not await enqueued(app, send_welcome, user_id=2)
        assert len(await enqueued(app)) == 2
        await drain(app)
        assert sent == [1]
        assert not await enqueued(app, send_welcome)
        assert (await handle.view()).status is JobState.SCHEDULED


async def test_drain_runs_jobs_in_processes_too(windlass_url):
    async with app:
        handle = await elsewhere.enqueue()
        await drain(app)
        assert (await handle.view()).status is JobState.SUCCEEDED
        assert await handle.result(timeout=0) != os.getpid()


async def test_an_app_that_no_process_could_import_is_told_so(windlass_url):
    hidden = Windlass(windlass_url, name="hidden")
    hidden.job(process=True)(elsewhere.function)
    async with hidden:
        with pytest.raises(UsageError, match="elsewhere cannot be run.*top level"):
            await drain(hidden)


async def test_drain_names_what_it_cannot_run(windlass_url):
    other = Windlass(windlass_url, name="other")

    @other.job
    async def strange() -> None: ...

    async with app, other:
        handle = await later.enqueue(user_id=1)
        await strange.enqueue()
        with pytest.raises(UsageError, match=r"does not define: strange \(1\)"):
            await drain(app)
        assert (await handle.view()).status is JobState.SUCCEEDED


async def test_drain_that_takes_too_long_names_what_is_left(windlass_url, db):
    async with app:
        await later.enqueue(user_id=1)
        await db.rows(Statement("tests.hide", _INTO_A_QUEUE_THAT_NOBODY_SERVES))
        with pytest.raises(TimeoutError, match=r"after 0.2 s. What is left: later \(1\)"):
            await drain(app, timeout=0.2)


async def test_what_was_enqueued_is_found_by_the_values_it_was_given(windlass_url):
    who = uuid4()
    async with app:
        await moved.enqueue(who, tenant="acme", job="a")
        assert await enqueued(app, moved, who=who)
        assert await enqueued(app, moved, job="a")
        assert await enqueued(app, moved, {"tenant": "acme"}, who=who)
        assert not await enqueued(app, moved, {"tenant": "other"})
        assert not await enqueued(app, moved, unknown=None)


async def test_what_was_enqueued_is_found_behind_hundreds_of_others(windlass_url):
    async with app:
        first = await send_welcome.enqueue(user_id=0)
        await app.enqueue_many([send_welcome.request(user_id=1) for _ in range(510)])
        assert [view.id for view in await enqueued(app, user_id=0)] == [first.id]


async def test_a_template_is_made_anew_over_one_that_was_left_half_made(windlass_server, db):
    name = _template_name(datetime.now(UTC) + timedelta(days=int(uuid4().hex[:2], 16) + 1))
    await _run(windlass_server, f"create database {name}_new")
    try:
        await _make_template(windlass_server, name)
        await _make_template(windlass_server, name)
        found = {row["datname"] for row in await db.rows(Statement("tests.templates", "select datname from pg_database"))}
        assert name in found
        assert f"{name}_new" not in found
    finally:
        await _run(windlass_server, f"drop database if exists {name} with (force)")


async def test_templates_of_days_gone_by_are_dropped(windlass_server, db):
    old, name = f"windlass_template_{uuid4().hex[:12]}_20200101", _template_name(datetime.now(UTC) + timedelta(days=400))
    await _run(windlass_server, f"create database {old}")
    try:
        await _make_template(windlass_server, name)
        found = {row["datname"] for row in await db.rows(Statement("tests.templates", "select datname from pg_database"))}
        assert old not in found
    finally:
        await _run(windlass_server, f"drop database if exists {name} with (force)")


_INTO_A_QUEUE_THAT_NOBODY_SERVES = """
with made as (insert into windlass.queues (name) values ('hidden') returning id)
update windlass.queue set queue_id = (select id from made)
"""
