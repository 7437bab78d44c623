"""EXPLAIN guards: each hot statement touches rows in proportion to its batch, by index, whatever the tables hold.

The statements are prepared while the tables are empty and run when they are full, with the statistics still
those of the beginning: that is what happens in production, and what breaks queues.
"""

import json
import re
from uuid import UUID, uuid4

import pytest

from windlass import engine
from windlass.db import Database, Statement, statement
from windlass.engine import _claim, _due, _enqueue, _lease, _settle, _shortcut
from windlass.model import Definition

HISTORY, BACKLOG, BATCH = 1_000_000, 500_000, 500
_SEED_HISTORY = Statement(
    "tests.seed_history",
    """
with ids as materialized (
  select windlass.uuid7_from(clock_timestamp() - n * interval '200 milliseconds') as id, n from generate_series(1, $1::int) n
), j as (
  insert into windlass.jobs (id, tenant_id, definition_id, queue_id, priority, max_attempts, payload)
  select i.id, t.id, d.id, q.id, 100, 3, '{}' from ids i, windlass.tenants t, windlass.definitions d, windlass.queues q
  where t.slug = 'default' and d.key = 'noop' and q.name = 'default'
)
insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, status, state, finished_at)
select i.id, 1, t.id, d.id, 'succeeded', 'succeeded', now() from ids i, windlass.tenants t, windlass.definitions d
where t.slug = 'default' and d.key = 'noop'""",
)
_SEED_BACKLOG = Statement(
    "tests.seed_backlog",
    """
with j as materialized (
  insert into windlass.jobs (id, tenant_id, definition_id, queue_id, priority, max_attempts, payload)
  select windlass.uuid7(), t.id, d.id, q.id, 100, 3, '{}'
  from generate_series(1, $1::int), windlass.tenants t, windlass.definitions d, windlass.queues q
  where t.slug = 'default' and d.key = 'noop' and q.name = 'default' returning *
), p as (
  insert into windlass.parked (job_id, queue_id, tenant_id, priority, definition_id, attempt, max_attempts, flags, why, due_at)
  select windlass.uuid7(), queue_id, tenant_id, priority, definition_id, 0, 3, 0, 'scheduled',
         clock_timestamp() + interval '1 day' from j limit $1::int / 10
)
insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
select queue_id, tenant_id, priority, id, definition_id, 0, 3, 0 from j""",
)
_HEAD = ([-(2**31)], [UUID(int=0)])


class Plans:
    """A connection with each hot statement prepared while everything was empty."""

    def __init__(self, tx) -> None:
        self.connection = tx._connection

    async def prepare(self, one: Statement, types: str) -> None:
        await self.connection.execute(f"prepare {_name(one)} ({types}) as {one.text}")
        arguments = ", ".join(["null"] * len(types.split(",")))
        await self.connection.execute(f"explain execute {_name(one)} ({arguments})")

    async def run(self, one: Statement, *values) -> dict:
        """Run it and answer its plan, with buffers."""
        arguments = ", ".join(_literal(value) for value in values)
        text = await self.connection.fetchval(f"explain (analyze, buffers, format json) execute {_name(one)} ({arguments})")
        return json.loads(text)[0]["Plan"]


def _name(one: Statement) -> str:
    return re.sub(r"\W", "_", one.name)


def _literal(value) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        # An untyped literal, which takes the parameter's own type.
        return "'{" + ",".join("NULL" if v is None else f'"{v}"' for v in value) + "}'"
    return f"'{value}'" if isinstance(value, (str, UUID)) else str(value)


def nodes(plan: dict):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def scans(plan: dict) -> list[str]:
    """Sequential scans of tables that can be large."""
    small = {"tenants", "queues", "definitions", "listening", "workers"}
    return [n["Relation Name"] for n in nodes(plan) if n["Node Type"] == "Seq Scan" and n["Relation Name"] not in small]


def rows_touched(plan: dict) -> int:
    """The most rows any scan of a table read, or any join looked at, those included that did not fit."""
    read = [
        (n.get("Actual Rows", 0) + n.get("Rows Removed by Filter", 0) + n.get("Rows Removed by Join Filter", 0))
        * n.get("Actual Loops", 1)
        for n in nodes(plan) if ("Relation Name" in n or "Join Type" in n) and n["Node Type"] != "ModifyTable"
    ]  # fmt: skip
    return int(max(read, default=0))


CLAIM = "bigint,uuid[],int[],uuid[],int[],int,uuid,float8,uuid[]"
SETTLE_SUCCEEDED = "uuid[],bigint[],jsonb[],float8[],float8[],uuid"
SETTLE = "uuid[],bigint[],text[],text[],jsonb[],text[],float8[],boolean[],float8[],float8[],int[],bigint[],text[],text[],uuid"
ENQUEUE = "text[],text[],jsonb[],int[],float8[],timestamptz[],int[],text[],uuid[],text[],text[],text[]"


NEVER_LOOKED_AT = "relpages = 0, reltuples = -1"
VACUUMED_WHILE_EMPTY = "relpages = 0, reltuples = 0"
FOUND_EMPTY_IN_PART = "relpages = 1, reltuples = 0"


@pytest.fixture(params=[NEVER_LOOKED_AT, VACUUMED_WHILE_EMPTY, FOUND_EMPTY_IN_PART])
async def full(db: Database, request):
    """Statements prepared on empty tables, with what the planner may believe of them then; after that a deep history and
    a long backlog.
    """
    await engine.registry.sync(db, "tests", [Definition("noop")])
    async with db.transaction() as tx:
        await tx.script(f"update pg_class set {request.param} where relname in ('queue', 'parked', 'leases', 'dependencies')")
        plans = Plans(tx)
        for one, types in {
            _claim._CLAIM: CLAIM, _claim._DISCOVER: "bigint,uuid,int", _settle._SETTLE_SUCCEEDED: SETTLE_SUCCEEDED,
            _settle._SETTLE: SETTLE, _enqueue._ENQUEUE: ENQUEUE, _lease._EXTEND: "uuid[],bigint[],float8,uuid",
            _lease._RELEASE: "uuid[],bigint[],uuid", _due._PROMOTE: "timestamptz,int", _due._NEXT_DUE: "text,timestamptz",
            _enqueue._ENQUEUE_ALIKE: "text,text,jsonb[],int,int,text,uuid,text,text,text",
            _shortcut._ENQUEUE_KNOWN: "uuid,xid,uuid,bigint,int,int,jsonb,text,uuid,text,text,text",
        }.items():  # fmt: skip
            await plans.prepare(one, types)
        await tx.rows(_SEED_HISTORY, HISTORY)
        await tx.rows(_SEED_BACKLOG, BACKLOG)
        yield tx, plans


@pytest.mark.timeout(400)
async def test_every_hot_statement_touches_rows_in_proportion_to_its_batch(full):
    tx, plans = full
    queue = await tx.value(Statement("q", "select id from windlass.queues where name = 'default'"))
    tenant = await tx.value(Statement("t", "select id from windlass.tenants where slug = 'default'"))
    nothing, worker = [None] * BATCH, uuid4()

    async def claimed() -> tuple[list[UUID], list[int]]:
        plan = await plans.run(_claim._CLAIM, queue, [tenant], *_HEAD, [BATCH], BATCH, worker, 30.0, None)
        check("claim", plan)
        rows = await tx.rows(Statement("l", f"select job_id, no from windlass.leases order by no desc limit {BATCH}"))
        return [r[0] for r in rows], [r[1] for r in rows]

    found: dict[str, int] = {}

    def check(name: str, plan: dict, most: int = 3 * BATCH) -> None:
        assert scans(plan) == [], name
        assert rows_touched(plan) <= most, (name, rows_touched(plan))
        found[name] = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

    check("discover", await plans.run(_claim._DISCOVER, queue, UUID(int=0), 1000), 20)
    jobs, leases = await claimed()
    check("extend", await plans.run(_lease._EXTEND, jobs, leases, 30.0, worker))
    ones = [1.0] * BATCH
    check("settle_succeeded", await plans.run(_settle._SETTLE_SUCCEEDED, jobs, leases, nothing, ones, ones, worker))
    jobs, leases = await claimed()
    check("settle", await plans.run(
        _settle._SETTLE, jobs, leases, ["failed"] * BATCH, nothing, nothing, ["no"] * BATCH, [60.0] * BATCH, [True] * BATCH,
        ones, ones, nothing, nothing, nothing, nothing, worker,
    ))  # fmt: skip
    jobs, leases = await claimed()
    check("release", await plans.run(_lease._RELEASE, jobs, leases, worker))
    check("enqueue", await plans.run(
        _enqueue._ENQUEUE, ["noop"] * BATCH, ["default"] * BATCH, ["{}"] * BATCH, nothing, nothing, nothing, nothing, nothing,
        nothing, ["manual"] * BATCH, nothing, nothing,
    ))  # fmt: skip
    check("enqueue_alike", await plans.run(
        _enqueue._ENQUEUE_ALIKE, "noop", "default", ["{}"] * BATCH, None, None, None, None, "manual", None, None,
    ))  # fmt: skip
    known = await tx.row(_shortcut._KNOWN, "noop", "default")
    check("enqueue_known", await plans.run(
        _shortcut._ENQUEUE_KNOWN, known[0], str(known[1]), *known[2:], "{}", None, None, "manual", None, None,
    ), 10)  # fmt: skip
    check("promote", await plans.run(_due._PROMOTE, "1970-01-01Z", BATCH))
    check("next_due", await plans.run(_due._NEXT_DUE, "scheduled", "1970-01-01Z"), 5)
    # Pages per job, all indexes included: a plan that walks a backlog needs thousands of times that.
    assert max(found.values()) <= 60 * BATCH, found


def test_every_statement_has_a_file_with_its_own_name():
    assert statement(engine.__file__, "claim").name == "engine.claim"
