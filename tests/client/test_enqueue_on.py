"""Enqueue inside the caller's own transaction, on the real libraries, committed and rolled back."""

import asyncio
import contextlib
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import asyncpg
import django
import psycopg
import pytest
import sqlalchemy
from django.conf import settings as django_settings
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from windlass import Windlass
from windlass.model import JobState
from windlass.model.errors import BadPayload, InactiveDefinition, UnknownDefinition, UnknownJob, UnknownTenant, UsageError


class Boom(Exception):
    """The caller's own trouble."""


@pytest.fixture
async def app(windlass_url):
    app = Windlass(windlass_url, name="tests")

    @app.job
    async def greet(name: str) -> None: ...

    app.greet = greet
    async with app:
        yield app


def sync_psycopg(url, work):
    with psycopg.connect(url) as connection:
        return work(connection)


def sync_psycopg_with_dict_rows(url, work):
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        return work(connection)


def sqlalchemy_connection(url, work):
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        return work(connection)


def sqlalchemy_session(url, work):
    class OurSession(Session):
        """A subclass, as products have."""

    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sqlalchemy.NullPool)
    with OurSession(engine) as session, session.begin():
        return work(session)


def django_connection(url, work):
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if not django_settings.configured:
        django_settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}}, USE_TZ=True)
        django.setup()
    from django.db import connection, transaction

    connection.close()
    connection.settings_dict.update(
        NAME=parts.path[1:], USER=parts.username, HOST=query["host"][0], PORT=query["port"][0],
    )  # fmt: skip
    try:
        with transaction.atomic():
            return work(connection)
    finally:
        connection.close()


SYNC = [sync_psycopg, sync_psycopg_with_dict_rows, sqlalchemy_connection, sqlalchemy_session, django_connection]


async def with_asyncpg(url, work):
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            return await work(connection)
    finally:
        await connection.close()


async def with_an_asyncpg_pool(url, work):
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection, connection.transaction():
        return await work(connection)


async def with_async_psycopg(url, work):
    async with await psycopg.AsyncConnection.connect(url) as connection:
        return await work(connection)


async def with_async_sqlalchemy(url, work):
    engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sqlalchemy.NullPool)
    async with AsyncSession(engine) as session, session.begin():
        return await work(session)


async def with_async_sqlalchemy_on_asyncpg(url, work):
    query = parse_qs(urlsplit(url).query)
    bare = f"postgresql+asyncpg://postgres@/{urlsplit(url).path[1:]}"
    engine = create_async_engine(
        bare, poolclass=sqlalchemy.NullPool, connect_args={"host": query["host"][0], "port": int(query["port"][0])}
    )
    async with engine.begin() as connection:
        return await work(connection)


ASYNC = [with_asyncpg, with_an_asyncpg_pool, with_async_psycopg, with_async_sqlalchemy, with_async_sqlalchemy_on_asyncpg]


@pytest.mark.parametrize("within", SYNC)
async def test_what_a_synchronous_transaction_commits_exists(app, within):
    handle = await asyncio.to_thread(within, app.url, lambda connection: app.greet.enqueue_on(connection, name="Ann"))
    view = await handle.view()
    assert (view.status, view.payload) == (JobState.QUEUED, {"name": "Ann"})


@pytest.mark.parametrize("within", SYNC)
async def test_what_a_synchronous_transaction_rolls_back_never_was(app, within):
    def work(connection):
        app.greet.options(delay="5m", dedupe_key="k").enqueue_on(connection, name="Ann")
        raise Boom

    with pytest.raises(Boom):
        await asyncio.to_thread(within, app.url, work)
    assert not any((await app.jobs.counts()).values())


@pytest.mark.parametrize("within", ASYNC)
async def test_what_an_asynchronous_transaction_commits_exists(app, within):
    async def work(connection):
        return await app.greet.options(delay="5m", priority=3, correlation_id="c").enqueue_on(connection, name="Ann")

    view = await (await within(app.url, work)).view()
    assert (view.status, view.payload, view.priority, view.correlation_id) == (JobState.SCHEDULED, {"name": "Ann"}, 3, "c")


@pytest.mark.parametrize("within", ASYNC)
async def test_what_an_asynchronous_transaction_rolls_back_never_was(app, within):
    async def work(connection):
        await app.greet.enqueue_on(connection, name="Ann")
        raise Boom

    with pytest.raises(Boom):
        await within(app.url, work)
    assert not any((await app.jobs.counts()).values())


@pytest.fixture
async def unknown(windlass_url):
    """A job of which the database has never heard."""
    other = Windlass(windlass_url, name="others")

    @other.job
    async def unheard_of() -> None: ...

    return unheard_of


@pytest.mark.parametrize("within", SYNC)
async def test_a_synchronous_connection_raises_what_enqueue_raises(app, unknown, within):
    with pytest.raises(UnknownDefinition, match="There is no definition 'unheard_of'"):
        await asyncio.to_thread(within, app.url, unknown.enqueue_on)
    with pytest.raises(UnknownTenant) as raised:
        await asyncio.to_thread(within, app.url, lambda on: app.greet.options(tenant="nobody").enqueue_on(on, name="Ann"))
    assert raised.value.tenant == "nobody"
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize("within", ASYNC)
async def test_an_asynchronous_connection_raises_what_enqueue_raises(app, unknown, within):
    missing = uuid4()

    async def depend(connection):
        await app.greet.options(depends_on=[missing]).enqueue_on(connection, name="Ann")

    with pytest.raises(UnknownDefinition) as raised:
        await within(app.url, unknown.enqueue_on)
    assert raised.value.key == "unheard_of"
    with pytest.raises(UnknownJob, match=str(missing)):
        await within(app.url, depend)
    await app.jobs.disable("greet")
    with pytest.raises(InactiveDefinition, match="'greet' may not run"):
        await within(app.url, lambda connection: app.greet.enqueue_on(connection, name="Ann"))


@pytest.mark.parametrize("within", SYNC)
async def test_another_error_of_the_database_stays_the_librarys_own(app, within):
    with pytest.raises(Exception, match="aborted") as raised:
        await asyncio.to_thread(within, app.url, lambda on: _spoiled(on, app))
    assert type(raised.value).__module__.split(".")[0] in {"psycopg", "sqlalchemy", "django"}


def _spoiled(connection, app):
    """Enqueue in a transaction that an earlier mistake has aborted."""
    mistake = "select * from no_such_schema.x"
    with contextlib.suppress(Exception):
        if isinstance(connection, sqlalchemy.Connection | Session):
            connection.execute(sqlalchemy.text(mistake))
        else:
            connection.cursor().execute(mistake)
    app.greet.enqueue_on(connection, name="Ann")


async def test_a_bad_payload_is_refused_before_the_connection_is_touched(app):
    with pytest.raises(BadPayload):
        app.greet.enqueue_on(object(), name=["not", "a", "name"])


async def test_something_else_than_a_connection_is_told_what_to_pass(app):
    with pytest.raises(UsageError, match="psycopg 3, SQLAlchemy"):
        app.greet.enqueue_on(object(), name="Ann")


async def test_a_handle_that_was_not_awaited_says_so(app):
    async def work(connection):
        handle = app.greet.enqueue_on(connection, name="Ann")
        with pytest.raises(UsageError, match="await"):
            _ = handle.id
        await handle

    await with_asyncpg(app.url, work)


async def test_plain_sql_is_enough(app):
    connection = await asyncpg.connect(app.url)
    try:
        job_id = await connection.fetchval("""select windlass.enqueue('greet', '{"name": "Ann"}', tenant => 'default')""")
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.fetchval("select windlass.enqueue('nothing')")
        assert refused.value.sqlstate == "WL001"
    finally:
        await connection.close()
    assert (await app.jobs.get(job_id)).status is JobState.QUEUED
