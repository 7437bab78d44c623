"""The doctor finds what is wrong, and says what to do."""

import json

from cli.shell import run, worker
from windlass.db import Database, Statement


def test_a_healthy_database_has_nothing_wrong(shop_url):
    with worker():
        told = run("doctor")
    assert told.status == 0
    assert "✗" not in told.out
    for line in (
        "✓ database",
        "✓ settings",
        "✓ wake-ups",
        "✓ migrations",
        "✓ partitions",
        "✓ workers",
        "✓ definitions",
        "✓ queues",
    ):
        assert f"\n{line}" in f"\n{told.out}"


def test_a_database_without_the_schema_is_wrong(empty_url):
    told = run("doctor")
    assert told.status == 1
    assert "✗ migrations" in told.out
    assert "→ run `windlass db migrate`" in told.out


def test_a_database_that_cannot_be_reached_is_wrong():
    told = run("doctor", WINDLASS_DATABASE_URL="postgresql://127.0.0.1:1/x")
    assert told.status == 1
    assert "✗ database" in told.out
    assert "Traceback" not in told.err
    assert run("doctor", WINDLASS_DATABASE_URL=None, WINDLASS_HOME="/nonexistent").out.startswith("✗ database     no database:")


def test_a_listen_url_that_leads_nowhere_is_wrong(windlass_url):
    told = run("doctor", WINDLASS_LISTEN_URL="postgresql://127.0.0.1:1/x")
    assert told.status == 1
    assert "✗ wake-ups" in told.out
    assert "let WINDLASS_LISTEN_URL name the primary" in told.out
    assert told.err == ""


def test_a_listen_url_that_is_none_is_wrong(windlass_url):
    told = run("doctor", WINDLASS_LISTEN_URL="postgresql://localhost:abc/x")
    assert told.status == 1
    assert "✗ wake-ups     The listen URL (WINDLASS_LISTEN_URL) is wrong" in told.out
    assert "Traceback" not in told.err


async def test_what_waits_in_vain_is_found(shop_url, db):
    run("enqueue", "greet")
    await db.rows(Statement("tests.dead", _A_WORKER_THAT_FELL_SILENT))
    findings = {one["name"]: one for one in json.loads(run("doctor", "--json").out)["checks"]}
    assert findings["definitions"]["mark"] == "warning"
    assert "greet (1 in queue default)" in findings["definitions"]["text"]
    assert findings["workers"]["mark"] == "warning"
    assert "1 of 1 are silent: ghost" in findings["workers"]["text"]


async def test_lacking_partitions_and_rows_outside_of_them_are_found(shop_url, db):
    await db.rows(Statement("tests.drop", "drop table windlass." + await _newest(db, "job_logs")))
    for name in await _all(db, "jobs"):
        await db.rows(Statement("tests.drop", f"drop table windlass.{name}"))
    told = run("doctor", "--json")
    assert told.status == 1
    findings = {one["name"]: one for one in json.loads(told.out)["checks"]}
    assert findings["partitions"] == {
        "name": "partitions", "mark": "error", "text": "there is none for today: jobs",
        "advice": "run `windlass db migrate`, and keep a worker running: it makes them ahead",
    }  # fmt: skip
    assert run("db", "migrate").status == 0
    assert run("doctor").status == 0


_A_WORKER_THAT_FELL_SILENT = """
insert into windlass.workers (id, name, hostname, pid, version, queues, definitions, concurrency, last_seen_at)
values (gen_random_uuid(), 'ghost', 'h', 1, '0', '{default}', '{greet}', 1, clock_timestamp() - interval '1 hour')
"""
_PARTITIONS = Statement(
    "tests.partitions",
    "select relname from pg_class where relname ~ ('^' || $1 || '_p[0-9]{8}$') and relispartition order by relname",
)


async def _all(db: Database, table: str) -> list[str]:
    return [row["relname"] for row in await db.rows(_PARTITIONS, table)]


async def _newest(db: Database, table: str) -> str:
    return (await _all(db, table))[-1]
