"""The ground that is measured on: a database of the bench's own, migrated, with its jobs and tenants; gone at the end."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import UUID, uuid4

from windlass import engine, logs
from windlass.bench._jobs import Jobs, jobs_on
from windlass.bench._plan import Plan
from windlass.bench._result import Ceilings
from windlass.db import Database, Statement, migrate, statement
from windlass.model.errors import DatabaseError, Disconnected, NotConfigured

_FILL = statement(__file__, "fill")
_DEFAULT_TENANT = statement(__file__, "default_tenant")
_TENANTS = statement(__file__, "tenants")
_SWEEP = statement(__file__, "sweep")
_CLEAR = statement(__file__, "clear")
_INSERT_TABLE = statement(__file__, "insert_table")
_QUEUE, _CEILING_QUEUE = "default", "bench-ceiling"


@dataclass(frozen=True, slots=True)
class Ground:
    """A migrated database and what is measured in it. `pinned` has the plans of a worker's connections.

    The ceiling has a queue of its own, in the same tables, so that an idle worker does not touch its jobs.
    """

    plan: Plan
    server_url: str
    note: Callable[[str], None]
    ceilings: Ceilings
    database: Database
    pinned: Database
    jobs: Jobs
    tenant: UUID
    noop: UUID
    queue: int
    ceiling_queue: int

    async def fill(self, count: int, *, queue: int | None = None, tenants: list[UUID] | None = None) -> None:
        """Let so many jobs wait, all at once, and wake who waits for them."""
        await self.database.rows(_FILL, count, queue or self.queue, tenants or [self.tenant], self.noop)

    async def make_tenants(self, count: int) -> list[UUID]:
        """Tenants to share the work."""
        return [row["id"] for row in await self.database.rows(_TENANTS, count)]

    async def sweep(self) -> None:
        """Take out what earlier rounds left dead."""
        await self.database.rows(_SWEEP)

    async def clear(self) -> None:
        """Drop what waits."""
        await self.database.rows(_CLEAR)

    def another(self) -> AbstractAsyncContextManager["Ground"]:
        """A second one beside this, on the same server and in the same run."""
        return ground_on(self.plan, self.server_url, self.note, self.ceilings)


@asynccontextmanager
async def ground_on(plan: Plan, server_url: str, note: Callable[[str], None], ceilings: Ceilings) -> AsyncGenerator[Ground]:
    """Make the ground on a server; however the context ends, nothing of it stays."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(_database_of_ones_own(server_url))
        database = await stack.enter_async_context(opened(url))
        pinned = await stack.enter_async_context(opened(url, pinned=True))
        await _prepare(database)
        jobs = jobs_on(url)
        await stack.enter_async_context(jobs.app)
        queues = await engine.registry.queue_ids(database, [_QUEUE, _CEILING_QUEUE])
        noop = (await engine.registry.effective(database))[jobs.noop.key]
        tenant = await database.value(_DEFAULT_TENANT)
        yield Ground(plan, server_url, note, ceilings, database, pinned, jobs, tenant, UUID(noop.id), queues[_QUEUE],
                     queues[_CEILING_QUEUE])  # fmt: skip


@asynccontextmanager
async def opened(url: str, *, pinned: bool = False) -> AsyncGenerator[Database]:
    """A pool, closed at the end."""
    database = await Database.open(url, size=4, pinned=pinned)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def _database_of_ones_own(server_url: str) -> AsyncGenerator[str]:
    name = f"windlass_bench_{uuid4().hex[:12]}"
    try:
        await _run(server_url, f"create database {name}")
    except Disconnected:
        raise
    except DatabaseError as problem:
        msg = (
            f"The bench measures in a database of its own, and it could not be made: {problem} Use a user with CREATEDB in "
            "WINDLASS_DATABASE_URL, or leave that unset to measure the embedded database."
        )
        raise NotConfigured(msg) from problem
    try:
        yield with_database(server_url, name)
    finally:
        await _run(server_url, f"drop database if exists {name} with (force)")


async def _run(url: str, command: str) -> None:
    async with opened(url) as database:
        if database.pooled:
            msg = "The bench needs a direct connection, and a pooler stands before this database: give it the direct URL."
            raise NotConfigured(msg)
        await database.rows(Statement("bench.command", command))


async def _prepare(database: Database) -> None:
    await migrate.apply(database)
    await engine.prune.make_partitions(database)
    await logs.make_partitions(database)
    await database.rows(_INSERT_TABLE)


def with_database(url: str, name: str) -> str:
    """The same server, another database, wherever the URL names it."""
    parts = urlsplit(url)
    kept = [(key, value) for key, value in parse_qsl(parts.query) if key not in {"dbname", "database"}]
    return urlunsplit(parts._replace(path=f"/{name}", query=urlencode(kept)))
