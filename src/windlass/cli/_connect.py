"""The database a command works on: found, opened, given back."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any, TypeVar

from windlass import telemetry
from windlass.cli._shown import busy, say
from windlass.db import Database, embedded, migrate
from windlass.model.errors import NotConfigured
from windlass.settings import Settings, load_settings

T = TypeVar("T")
_POOL = 4


def settings() -> Settings:
    """The settings; from here on, what rooms below have to say goes to stderr, and only if it is an error."""
    told = load_settings()
    telemetry.configure_logs(told.log_format, logging.ERROR)
    return told


def find_url(told: Settings, *, make: bool = False) -> str:
    """The database that is set, else the embedded one, started if need be; it is made only on request."""
    if told.database_url:
        return told.database_url
    if not make and not any(told.home.glob("postgres-*/PG_VERSION")):
        msg = f"no database: set WINDLASS_DATABASE_URL or run `windlass up` (there is none in {told.home})."
        raise NotConfigured(msg)
    with busy(f"Starting PostgreSQL in {told.home}"):
        server = embedded.start_embedded(told.home)
    if server.owned:
        say(f"PostgreSQL was started in {told.home}, and goes on running: `windlass db stop` stops it.", error=True)
    return server.url


def on_database(
    work: Callable[[Database], Coroutine[Any, Any, T]], *, migrated: bool = True, make: bool = False, doing: str | None = None
) -> T:
    """Do this on the database; what is not migrated as this version needs it is refused."""
    url = find_url(settings(), make=make)
    with busy(doing) if doing else nullcontext():
        return asyncio.run(_on(url, work, migrated=migrated))


async def _on(url: str, work: Callable[[Database], Coroutine[Any, Any, T]], *, migrated: bool) -> T:
    database = await Database.open(url, size=_POOL)
    try:
        if migrated:
            await migrate.require_current(database)
        return await work(database)
    finally:
        await database.close()
