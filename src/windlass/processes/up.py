"""`windlass up`: a database, its schema and a worker as one process."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from windlass import engine, logs
from windlass.db import Database, embedded, migrate
from windlass.db.migrate import Migration
from windlass.settings import Settings


@dataclass(frozen=True, slots=True)
class Ground:
    """The database that all stands on; `server` is the embedded one, if it is that."""

    url: str
    server: embedded.EmbeddedPostgres | None = None

    @property
    def ours_to_stop(self) -> bool:
        """Whether this process started it."""
        return self.server is not None and self.server.owned


@contextmanager
def standing_on(settings: Settings) -> Generator[Ground]:
    """The database that is set, else the embedded one: started if need be, and stopped again by whoever started it."""
    if settings.database_url:
        yield Ground(settings.database_url)
        return
    server = embedded.start_embedded(settings.home)
    try:
        yield Ground(server.url, server)
    finally:
        if server.owned:
            embedded.stop_embedded(server)


async def bring_up_to_date(database: Database) -> list[Migration]:
    """Migrations, and the partitions of the next weeks; answers the migrations that were applied."""
    applied = await migrate.apply(database)
    await engine.prune.make_partitions(database)
    await logs.make_partitions(database)
    return applied


async def migrated(url: str) -> None:
    """Bring the database at this URL up to date."""
    database = await Database.open(url, size=2)
    try:
        await bring_up_to_date(database)
    finally:
        await database.close()
