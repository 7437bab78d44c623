"""Migrations: applied once, whoever and however many apply them; what does not fit is said."""

import asyncio
import os
import sys
from uuid import uuid4

import pytest

from windlass.db import Database, Statement, migrate
from windlass.model.errors import Disconnected, SchemaMismatch
from windlass.testing import _run, _with_database


@pytest.fixture
async def empty(windlass_server):
    """A database with nothing in it."""
    name = f"windlass_empty_{uuid4().hex[:8]}"
    await _run(windlass_server, f"create database {name}")
    yield _with_database(windlass_server, name)
    await _run(windlass_server, f"drop database {name} with (force)")


@pytest.fixture
async def bare(empty):
    database = await Database.open(empty, size=10)
    yield database
    await database.close()


async def test_all_are_applied_once(bare):
    assert [m.version for m in await migrate.apply(bare)] == [m.version for m in migrate.known()]
    assert await migrate.apply(bare) == []
    await migrate.require_current(bare)


async def test_many_at_once_apply_each_once(bare):
    applied = await asyncio.gather(*(migrate.apply(bare) for _ in range(8)))
    assert sorted(m.version for one in applied for m in one) == [m.version for m in migrate.known()]


async def test_a_process_killed_in_the_middle_leaves_nothing_half_done(empty, bare):
    """D-10: four processes, one of them killed: they converge."""
    code = "import asyncio,sys;from windlass.db import Database,migrate\nasync def m():\n d=await Database.open(sys.argv[1]);print('go',flush=True);await migrate.apply(d)\nasyncio.run(m())"
    many = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, empty, stdout=asyncio.subprocess.PIPE) for _ in range(4)
    ]
    await many[0].stdout.readline()
    os.kill(many[0].pid, 9)
    assert [await p.wait() for p in many[1:]] == [0, 0, 0]
    await many[0].wait()
    await migrate.apply(bare)
    await migrate.require_current(bare)
    invalid = Statement("tests.invalid", "select count(*) from pg_index where not indisvalid")
    assert await bare.value(invalid) == 0


async def test_a_database_without_windlass_is_told_to_migrate(bare):
    with pytest.raises(SchemaMismatch, match="windlass db migrate"):
        await migrate.require_current(bare)


async def test_a_migration_from_the_future_is_refused(bare):
    await migrate.apply(bare)
    await bare.rows(
        Statement(
            "tests.future", "insert into windlass.migrations (version, name, checksum) values (9999, '9999_flying_cars', 'x')"
        )
    )
    for attempt in (migrate.require_current, migrate.apply):
        with pytest.raises(SchemaMismatch, match="9999_flying_cars.*newer"):
            await attempt(bare)


async def test_a_migration_that_was_changed_is_refused(bare):
    await migrate.apply(bare)
    await bare.rows(Statement("tests.changed", "update windlass.migrations set checksum = 'x' where version = 1"))
    with pytest.raises(SchemaMismatch, match="0001.*other content"):
        await migrate.apply(bare)


async def test_the_printed_script_does_what_apply_does(bare):
    async with bare.transaction() as tx:
        await tx.script(migrate.as_script(migrate.known()).replace("begin;", "").replace("commit;", ""))
    await migrate.require_current(bare)


async def test_a_database_that_is_not_there_is_said_so():
    with pytest.raises(Disconnected, match="127.0.0.1"):
        await Database.open("postgresql://nobody@127.0.0.1:1/nothing")
