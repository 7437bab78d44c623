"""For the tests of products built on Windlass: a real database, `drain`, and `enqueued`.

The fixtures need nothing but `pip install "windlass[embedded]"`; pytest finds them by itself:

    async def test_welcome_is_sent(windlass_url):
        async with app:
            await send_welcome.enqueue(user_id=1)
            assert await enqueued(app, send_welcome, user_id=1)
            await drain(app)
"""

import asyncio
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import pytest
from pydantic import TypeAdapter

from windlass import engine, logs
from windlass.client import Job, Windlass
from windlass.db import Database, Statement, embedded, migrate
from windlass.model import JobState, JobView
from windlass.model.errors import UsageError
from windlass.processes.worker import WorkerPlan, working

_HOME_VARIABLE = "WINDLASS_TEST_HOME"
_TEMPLATE = "windlass_template_"
_TEMPLATES = Statement("testing.templates", "select datname from pg_database where datname ~ '^windlass_template_'")
_LOCK = Statement("testing.lock", "select pg_advisory_lock(7743012210)")
# Jobs that could run now: those of a definition, by its key; $1 keys, or null for all.
_LIVE = """
from windlass.definitions d cross join lateral (
  select from windlass.queue where definition_id = d.id
  union all select from windlass.leases where definition_id = d.id
  union all select from windlass.parked where definition_id = d.id and why = 'scheduled' and due_at <= clock_timestamp()) live
where $1::text[] is null or d.key = any ($1)
"""
_ANY = Statement("testing.any", f"select exists (select {_LIVE})")
_LEFT = Statement("testing.left", f"select d.key, count(*) as jobs {_LIVE} group by d.key order by d.key")
_PAGE = 500
_JSON: TypeAdapter[object] = TypeAdapter(object)


def pytest_configure(config: pytest.Config) -> None:
    """One database server for the whole run, however many processes it has."""
    if not hasattr(config, "workerinput") and _HOME_VARIABLE not in os.environ:
        home = tempfile.mkdtemp(prefix="windlass-test-")
        Path(home).chmod(0o755)
        os.environ[_HOME_VARIABLE] = home
        config.add_cleanup(lambda: _remove(Path(home)))


def _remove(home: Path) -> None:
    os.environ.pop(_HOME_VARIABLE, None)
    if any(home.glob("postgres-*")):
        server = embedded.start_embedded(home)
        embedded.stop_embedded(server)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def windlass_server() -> str:
    """The URL of a real PostgreSQL: WINDLASS_TEST_DATABASE_URL, or an embedded one for this run."""
    given = os.environ.get("WINDLASS_TEST_DATABASE_URL")
    return given or embedded.start_embedded(Path(os.environ[_HOME_VARIABLE]), settings=_SETTINGS).url


@pytest.fixture(scope="session")
def windlass_template(windlass_server: str) -> str:
    """The name of a database with everything migrated, of which the tests get copies."""
    name = _template_name(datetime.now(UTC))
    asyncio.run(_make_template(windlass_server, name))
    return name


@pytest.fixture
def windlass_url(windlass_server: str, windlass_template: str, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The URL of a fresh database with everything migrated, gone after the test. WINDLASS_DATABASE_URL says it
    too, so an app made with `Windlass()` uses it.
    """
    name = f"windlass_test_{uuid4().hex[:12]}"
    asyncio.run(_run(windlass_server, f"create database {name} template {windlass_template}"))
    url = _with_database(windlass_server, name)
    monkeypatch.setenv("WINDLASS_DATABASE_URL", url)
    yield url
    asyncio.run(_run(windlass_server, f"drop database {name} with (force)"))


async def drain(app: Windlass, *, timeout: float = 60) -> None:  # noqa: ASYNC109
    """Run what is due, now, in this process, until nothing is left that could run at once. Raises UsageError if jobs are
    left that this app does not define, TimeoutError after `timeout` seconds; both name what is left.
    """
    _find_source(app)
    try:
        with pytest.MonkeyPatch.context() as patch:
            # The processes of `process=True` jobs import what this one can: pytest has put folders on its path.
            patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
            async with asyncio.timeout(timeout), working(WorkerPlan(app, app.url)):
                await _nothing_left(app)
    except TimeoutError:
        msg = f"drain has not ended after {timeout:g} s. What is left: {await _left(app) or 'nothing any more'}."
        raise TimeoutError(msg) from None
    if left := await _left(app):
        msg = f"drain has run all it could. What is left, this app does not define: {left}."
        raise UsageError(msg)


async def enqueued(
    app: Windlass,
    job: Job[..., Any] | str | None = None,
    fields: Mapping[str, object] | None = None,
    /,
    *,
    tenant: str = "default",
    **payload: object,
) -> list[JobView]:
    """Waiting jobs of a kind, with these values in their payload: assert that there are any, or none. A field that is
    called `tenant` goes into the mapping `fields`.
    """
    states = [JobState.QUEUED, JobState.SCHEDULED, JobState.BLOCKED, JobState.WAITING]
    key = job.key if isinstance(job, Job) else job
    wanted = cast("dict[str, object]", _JSON.dump_python({**(fields or {}), **payload}, mode="json"))
    found: list[JobView] = []
    before: UUID | None = None
    while page := await app.jobs.list(tenant=tenant, status=states, definition_key=key, limit=_PAGE, before=before):
        views = [await app.jobs.get(view.id, tenant=tenant) for view in page]
        found += [view for view in views if _fits(view.payload, wanted)]
        before = page[-1].id
    return found


def _find_source(app: Windlass) -> None:
    """Note where the app can be imported from, for processes of their own."""
    if app.handlers.source is not None:
        return
    for name, module in list(sys.modules.items()):
        for attribute, value in list(vars(module).items()):
            if value is app and name != "__main__":
                app.handlers.source = f"{name}:{attribute}"
                return
    if lonely := [key for key, handler in app.handlers.items() if handler.executor == "process"]:
        msg = f"{', '.join(lonely)} cannot be run: a process must be able to import the app, so make it at a module's top level."
        raise UsageError(msg)


async def _nothing_left(app: Windlass) -> None:
    database = await Database.open(app.url, size=1)
    try:
        while await database.value(_ANY, list(app.handlers)):  # noqa: ASYNC110 - what is waited for is in the database
            await asyncio.sleep(0.005)
    finally:
        await database.close()


async def _left(app: Windlass) -> str:
    """What could run now, in words."""
    database = await Database.open(app.url, size=1)
    try:
        return ", ".join(f"{row['key']} ({row['jobs']})" for row in await database.rows(_LEFT, None))
    finally:
        await database.close()


def _fits(payload: object, wanted: dict[str, object]) -> bool:
    given = cast("dict[str, object]", payload) if isinstance(payload, dict) else {}
    return all(name in given and given[name] == value for name, value in wanted.items())


# The machine may be small and the tests many; what is committed must still be on disk.
_SETTINGS = {"max_connections": "300", "shared_buffers": "128MB", "max_wal_size": "2GB"}


def _template_name(moment: datetime) -> str:
    """For what is in it: a server that is kept may have one of other migrations, or one whose partitions have aged."""
    digest = hashlib.sha256("".join(one.checksum for one in migrate.known()).encode()).hexdigest()
    return f"{_TEMPLATE}{digest[:12]}_{moment:%Y%m%d}"


async def _make_template(url: str, name: str) -> None:
    """Make it, unless it is there; one process at a time, so what is half made has been left behind."""
    database = await Database.open(url, size=1)
    try:
        await database.value(_LOCK)
        present = {row["datname"] for row in await database.rows(_TEMPLATES)}
        if name in present:
            return
        for stale in filter(_is_stale, present):
            await _run(url, f"drop database {stale} with (force)")
        await _run(url, f"create database {name}_new")
        await _fill(_with_database(url, f"{name}_new"))
        await _run(url, f"alter database {name}_new rename to {name}")
    finally:
        await database.close()


def _is_stale(name: str) -> bool:
    """Half made, or of a day on which no run that still goes on can have begun."""
    return name.endswith("_new") or name[-8:] < f"{datetime.now(UTC) - timedelta(days=1):%Y%m%d}"


async def _fill(url: str) -> None:
    template = await Database.open(url, size=2)
    try:
        await migrate.apply(template)
        await engine.prune.make_partitions(template)
        await logs.make_partitions(template)
    finally:
        await template.close()


async def _run(url: str, command: str) -> None:
    database = await Database.open(url, size=1)
    try:
        await database.rows(Statement("testing.command", command))
    finally:
        await database.close()


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
