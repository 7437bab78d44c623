"""What all tests share: a fresh real database each, a definition to enqueue, tenants."""

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import pytest

from windlass import engine
from windlass.db import Database, Statement
from windlass.model import Definition

_TENANT = Statement("tests.tenant", "insert into windlass.tenants (slug, name, weight) values ($1, $1, $2) returning id")


@pytest.fixture
async def db(windlass_url: str) -> AsyncIterator[Database]:
    """A pool on a fresh database, pinned as the worker's is."""
    database = await Database.open(windlass_url, pinned=True, size=60)
    yield database
    await database.close()


@pytest.fixture
async def noop(db: Database) -> str:
    """The key of a definition that does nothing."""
    await engine.registry.sync(db, "tests", [Definition("noop")])
    return "noop"


@pytest.fixture
def make_tenant(db: Database) -> Callable[..., Awaitable[UUID]]:
    """Make a tenant."""

    async def make(slug: str, weight: int = 1) -> UUID:
        return await db.value(_TENANT, slug, weight)

    return make
