"""For the tests of products built on Windlass: a real database, `drain`, and `enqueued`.

The fixtures need nothing but `pip install "windlass[embedded]"`; pytest finds them by itself:

    async def test_welcome_is_sent(windlass_url):
        async with app:
            await send_welcome.enqueue(user_id=1)
            assert await enqueued(app, send_welcome, user_id=1)
            await drain(app)
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from windlass import engine, logs
from windlass.client import Job, Windlass
from windlass.db import Database, Statement, embedded, migrate
from windlass.model import JobState, JobView
from windlass.processes.worker import WorkerPlan, working

_HOME_VARIABLE = "WINDLASS_TEST_HOME"
_TEMPLATE = "windlass_template"
_LIVE = Statement("testing.live", "select exists (select from windlass.queue) or exists (select from windlass.leases)")
_DUE = Statement(
    "testing.due", "select exists (select from windlass.parked where why = 'scheduled' and due_at <= clock_timestamp())"
)
_PAGE = 500


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
    home = Path(os.environ[_HOME_VARIABLE])
    url = given or embedded.start_embedded(home, settings=_SETTINGS).url
    with (home / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        asyncio.run(_make_template(url))
    return url


@pytest.fixture
def windlass_url(windlass_server: str, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The URL of a fresh database with everything migrated, gone after the test. WINDLASS_DATABASE_URL says it
    too, so an app made with `Windlass()` uses it.
    """
    name = f"windlass_test_{uuid4().hex[:12]}"
    asyncio.run(_run(windlass_server, f"create database {name} template {_TEMPLATE}"))
    url = _with_database(windlass_server, name)
    monkeypatch.setenv("WINDLASS_DATABASE_URL", url)
    yield url
    asyncio.run(_run(windlass_server, f"drop database {name} with (force)"))


async def drain(app: Windlass, *, timeout: float = 60) -> None:  # noqa: ASYNC109
    """Run what is due, now, in this process, until nothing is left that could run at once."""
    async with asyncio.timeout(timeout), working(WorkerPlan(app, app.url)):
        database = await Database.open(app.url, size=1)
        try:
            while await database.value(_LIVE) or await database.value(_DUE):  # noqa: ASYNC110 - what is waited for is in the database
                await asyncio.sleep(0.005)
        finally:
            await database.close()


async def enqueued(
    app: Windlass, job: Job[..., Any] | str | None = None, *, tenant: str = "default", **payload: object
) -> list[JobView]:
    """Waiting jobs of a kind, with these values in their payload: assert that there are any, or none."""
    states = [JobState.QUEUED, JobState.SCHEDULED, JobState.BLOCKED, JobState.WAITING]
    key = job.key if isinstance(job, Job) else job
    listed = await app.jobs.list(tenant=tenant, status=states, definition_key=key, limit=_PAGE)
    views = [await app.jobs.get(view.id, tenant=tenant) for view in listed]
    return [view for view in views if _fits(view.payload, payload)]


def _fits(payload: object, wanted: dict[str, object]) -> bool:
    given = cast("dict[str, object]", payload) if isinstance(payload, dict) else {}
    return all(given.get(name) == value for name, value in wanted.items())


# The machine may be small and the tests many; what is committed must still be on disk.
_SETTINGS = {"max_connections": "300", "shared_buffers": "128MB", "max_wal_size": "2GB"}


async def _make_template(url: str) -> None:
    database = await Database.open(url, size=1)
    try:
        if await database.value(
            Statement("testing.has", "select exists (select from pg_database where datname = 'windlass_template')")
        ):
            return
    finally:
        await database.close()
    await _run(url, "create database windlass_template_new")
    template = await Database.open(_with_database(url, "windlass_template_new"), size=2)
    try:
        await migrate.apply(template)
        await engine.prune.make_partitions(template)
        await logs.make_partitions(template)
    finally:
        await template.close()
    await _run(url, f"alter database windlass_template_new rename to {_TEMPLATE}")


async def _run(url: str, command: str) -> None:
    database = await Database.open(url, size=1)
    try:
        await database.rows(Statement("testing.command", command))
    finally:
        await database.close()


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
