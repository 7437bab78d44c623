"""Databases that are not as they should be, and definitions without a worker."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from cli.shop import app
from windlass.db import Database, Statement, embedded


@pytest.fixture
def shop_url(windlass_url: str) -> str:
    """A database that knows the shop's definitions; no worker runs."""

    async def open_shop() -> None:
        async with app:
            pass

    asyncio.run(open_shop())
    return windlass_url


@pytest.fixture
def ask(shop_url: str) -> Callable[..., str]:
    """Enqueue a job of the shop without a shell; its id."""

    async def enqueue(key: str, payload: dict[str, object]) -> str:
        async with app:
            return str((await app.jobs.trigger(key, payload)).id)

    return lambda key, **payload: asyncio.run(enqueue(key, payload))


@pytest.fixture
def empty_url(windlass_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database without anything in it."""
    name = f"windlass_cli_{uuid4().hex[:12]}"
    asyncio.run(_run(windlass_server, f"create database {name}"))
    url = urlunsplit(urlsplit(windlass_server)._replace(path=f"/{name}"))
    monkeypatch.setenv("WINDLASS_DATABASE_URL", url)
    yield url
    asyncio.run(_run(windlass_server, f"drop database {name} with (force)"))


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with no database in it, in a folder that the server's own user may enter."""
    made = Path(tempfile.mkdtemp(prefix="windlass-cli-"))
    made.chmod(0o755)
    monkeypatch.delenv("WINDLASS_DATABASE_URL", raising=False)
    monkeypatch.setenv("WINDLASS_HOME", str(made))
    yield made
    if left := embedded.find_embedded(made):
        embedded.stop_embedded(left)
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
async def db(windlass_url: str) -> AsyncIterator[Database]:
    """The same database, from within."""
    database = await Database.open(windlass_url, size=2)
    yield database
    await database.close()


async def _run(url: str, command: str) -> None:
    database = await Database.open(url, size=1)
    try:
        await database.rows(Statement("tests.command", command))
    finally:
        await database.close()
