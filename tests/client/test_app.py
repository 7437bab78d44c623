"""Defining and enqueueing: what fits is stored, what does not is said where it is written."""

import asyncio
from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, Field

from windlass import JobContext, Windlass, backoff, cron, every
from windlass.model import JobState
from windlass.model.errors import (
    BadPayload,
    InactiveDefinition,
    NotConfigured,
    NotStorable,
    SchemaMismatch,
    UnknownDefinition,
    UnknownJob,
    UnknownTenant,
    UsageError,
)


class Address(BaseModel):
    """A pydantic type, as payloads have."""

    street: str
    number: int


@pytest.fixture
def app(windlass_url):
    return Windlass(windlass_url, name="tests")


async def test_the_schema_comes_from_the_signature(app):
    @app.job
    async def job(ctx: JobContext, who: UUID, to: Address, n: Annotated[int, Field(ge=1)] = 3) -> None:
        """Send something."""

    schema = job.definition.arg_schema
    assert job.definition.description == "Send something."
    assert schema["required"] == ["who", "to"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["n"] == {"minimum": 1, "title": "N", "type": "integer", "default": 3}
    assert "ctx" not in schema["properties"]


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        ({"who": "no uuid", "n": 0}, ["who", "n"]),
        ({"who": str(uuid4()), "n": 1, "extra": 2}, ["extra"]),
        ({}, ["who"]),
    ],
)
async def test_a_payload_that_does_not_fit_is_refused_with_its_paths(app, args, paths):
    @app.job
    async def job(who: UUID, n: Annotated[int, Field(ge=1)] = 1) -> None: ...

    async with app:
        with pytest.raises(BadPayload) as refused:
            await job.enqueue(**args)
    assert [path for path, _ in refused.value.errors] == paths


@pytest.mark.parametrize(
    "bad", ["a\x00b", "\ud800", float("nan"), float("inf"), "x" * (2 << 20)], ids=["nul", "surrogate", "nan", "inf", "huge"]
)
async def test_what_cannot_be_stored_is_refused_at_the_edge(app, bad):
    """F-24."""

    @app.job
    async def job(x: object) -> None: ...

    async with app:
        with pytest.raises((NotStorable, BadPayload)):
            await job.enqueue(bad)
        with pytest.raises((NotStorable, BadPayload)):
            await job.enqueue({"deep": [bad]})
        assert not any((await app.jobs.counts()).values())


async def test_a_payload_nested_too_deep_is_refused(app):
    @app.job
    async def job(x: object) -> None: ...

    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    async with app:
        with pytest.raises((NotStorable, BadPayload)):
            await job.enqueue(deep)


async def test_options_say_how_to_enqueue(app, db, make_tenant):
    await make_tenant("acme")

    @app.job
    async def job() -> None: ...

    async with app:
        handle = await job.options(
            tenant="acme", priority=7, delay=timedelta(minutes=5), correlation_id="order-1", max_attempts=9, dedupe_key="d"
        ).enqueue()
        again = await job.options(tenant="acme", dedupe_key="d").enqueue()
        view = await handle.view()
    assert (view.tenant, view.priority, view.status, view.max_attempts) == ("acme", 7, JobState.SCHEDULED, 9)
    assert (again.id, again.deduplicated) == (handle.id, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay": "soon"},
        {"delay": -1},
        {"at": datetime(2030, 1, 1)},
        {"priority": 2**31},
        {"max_attempts": 0},
        {"dedupe_key": ""},
        {"at": "2030-01-01"},
        {"priority": "x"},
        {"max_attempts": 1.5},
        {"delay": [5]},
        {"correlation_id": 5},
        {"depends_on": ["not-a-uuid"]},
        {"depends_on": "not-a-list"},
    ],
)
async def test_options_that_make_no_sense_are_refused(app, wrong):
    @app.job
    async def job() -> None: ...

    with pytest.raises(UsageError):
        job.options(**wrong)


async def test_jobs_awaited_at_the_same_time_go_together_and_a_wrong_one_goes_alone(app):
    @app.job
    async def job(n: int) -> None: ...

    async with app:
        many = [job.enqueue(n) for n in range(40)]
        wrong = job.options(tenant="nobody").enqueue(1)
        *handles, refused = await asyncio.gather(*many, wrong, return_exceptions=True)
        assert isinstance(refused, UnknownTenant)
        assert [(await handle.view()).payload for handle in handles] == [{"n": n} for n in range(40)]


async def test_enqueue_many_is_all_or_none(app):
    @app.job
    async def job(n: int) -> None: ...

    async with app:
        with pytest.raises(UnknownTenant):
            await app.enqueue_many([job.request(1), job.options(tenant="nobody").request(2)])
        assert not any((await app.jobs.counts()).values())
        assert len(await app.enqueue_many([job.request(n) for n in range(100)])) == 100


async def test_the_function_stays_a_function(app):
    @app.job
    def double(n: int) -> int:
        return 2 * n

    assert double(4) == 8


async def test_definitions_that_make_no_sense_are_refused(app):
    with pytest.raises(UsageError, match="named fields"):

        @app.job
        def variadic(*numbers: int) -> None: ...

    with pytest.raises(UsageError, match="process=True"):

        @app.job(process=True)
        async def coroutine() -> None: ...

    with pytest.raises(UsageError, match="queue"):
        app.job(queue="no spaces please")

    with pytest.raises(UsageError, match="two definitions"):
        for _ in range(2):

            @app.job(key="same")
            def job() -> None: ...

    with pytest.raises(UsageError, match="JSON form"):

        @app.job
        def odd(x: asyncio.Event) -> None: ...


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": 32768},
        {"priority": 2**31},
        {"priority": "high"},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": [60]},
        {"backoff": 5},
        {"schedule": "0 2 * * *"},
        {"dedupe_window": "soon"},
        {"max_running": 0},
        {"concurrency": 5},
        {"concurrency": ["one"]},
        {"rate": 5},
        {"retention_days": "30"},
        {"tags": "mail"},
    ],
    ids=str,
)
async def test_options_of_a_definition_that_make_no_sense_are_refused_where_they_are_written(app, wrong):
    (name,) = wrong
    with pytest.raises(UsageError, match=f"{name}|duration|limit"):
        app.job(**wrong)
    with pytest.raises(UsageError, match=f"{name}|duration|limit"):
        app.command("tool", argv=["true"], **wrong)


async def test_what_a_definition_may_say_is_kept_with_it(app):
    @app.job(
        max_running=3, rate={"count": 10, "per_seconds": 60}, concurrency={"key": "k", "max": 1}, timeout=None, tags=["a"],
        retention_days=30, schedule=every("5m"), priority=-5,
    )  # fmt: skip
    async def job() -> None: ...

    kept = job.definition
    assert (kept.max_running, kept.rate, kept.concurrency) == (3, {"count": 10, "per_seconds": 60}, ({"key": "k", "max": 1},))
    assert (kept.timeout_seconds, kept.tags, kept.retention_days, kept.priority) == (None, ("a",), 30, -5)
    assert kept.schedule == {"timezone": "UTC", "interval_seconds": 300.0, "jitter_seconds": 0.0}


async def test_a_state_that_there_is_not_is_refused_with_those_that_there_are(app):
    async with app:
        with pytest.raises(UsageError, match="'bogus'.*There are: scheduled, blocked"):
            await app.jobs.list(status="bogus")
        assert await app.jobs.list_runs(status=["queued", JobState.RUNNING]) == []


async def test_commands_take_what_their_schema_allows(app):
    schema = {"type": "object", "properties": {"model": {"type": "string"}}, "required": ["model"], "additionalProperties": False}
    tags = app.command("recompute", argv=["tool", "--model", "{payload.model}"], schema=schema)
    async with app:
        await tags.enqueue(model="siglip")
        with pytest.raises(BadPayload) as refused:
            await tags.enqueue(model=3, x=1)
    assert {path for path, _ in refused.value.errors} == {"model", ""}
    with pytest.raises(UsageError, match="command"):
        tags()


@pytest.mark.parametrize("ref", ["http://127.0.0.1:9/x.json", "file:///etc/passwd"])
async def test_a_schema_that_points_elsewhere_is_refused(app, ref):
    with pytest.raises(UsageError):
        app.command("evil", argv=["true"], schema={"$ref": ref})


async def test_what_people_changed_survives_new_code_until_forced(app, windlass_url):
    @app.job(priority=5, schedule=cron("0 2 * * *", tz="America/New_York"), backoff=backoff.exponential(10))
    async def job() -> None: ...

    newer = Windlass(windlass_url, name="tests")

    @newer.job(key="job", priority=6, schedule=every("5m"))
    async def renamed() -> None: ...

    async with app:
        await app.jobs.disable("job")
    async with newer:
        with pytest.raises(InactiveDefinition):
            await renamed.enqueue()
        found = (await newer.jobs.definitions())["job"]
        assert (found.priority, found.is_active) == (6, False)
        await newer.jobs.sync_definitions(force=True)
        await renamed.enqueue()


async def test_what_left_the_code_stays_known_and_runs_no_more(app, windlass_url):
    @app.job
    async def old() -> None: ...

    async with app:
        await old.enqueue()
    emptied = Windlass(windlass_url, name="tests")
    async with emptied:
        await emptied.jobs.sync_definitions()
        assert (await emptied.jobs.definitions())["old"].deleted_from_code
    async with app:
        await old.enqueue()  # the code that has it brings it back


async def test_looking_and_steering_from_code(app):
    @app.job
    async def job() -> None: ...

    async with app:
        handle = await app.jobs.trigger("job", {}, priority=1)
        assert [view.id for view in await app.jobs.list(status="queued")] == [handle.id]
        assert await app.jobs.cancel(handle.id) is JobState.CANCELED
        assert await app.jobs.retry(str(handle.id)) is JobState.QUEUED
        for wrong in (uuid4(), "not-an-id"):
            with pytest.raises(UnknownJob):
                await app.jobs.get(wrong)
        with pytest.raises(UnknownDefinition):
            await app.jobs.trigger("nothing")
        with pytest.raises(UnknownDefinition):
            await app.jobs.disable("nothing")


async def test_a_closed_app_says_how_to_open_it(app):
    with pytest.raises(NotConfigured, match="async with app"):
        _ = app.jobs


async def test_the_first_enqueue_opens_the_app(app):
    @app.job
    async def job() -> None: ...

    await asyncio.gather(*(job.enqueue() for _ in range(5)))
    assert (await app.jobs.counts())[JobState.QUEUED] == 5
    await app.close()


async def test_a_database_that_was_never_migrated_says_what_to_do(windlass_server):
    with pytest.raises(SchemaMismatch, match="windlass db migrate"):
        await Windlass(windlass_server).open()
