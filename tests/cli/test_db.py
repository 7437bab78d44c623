"""The database's migrations, from nothing to what this version needs."""

import json

import psycopg

from cli.shell import run
from windlass.db import Statement, migrate


def test_an_empty_database_is_migrated_once(empty_url):
    before = run("db", "status")
    assert before.status == 1
    assert "pending" in before.out
    assert "windlass db migrate" in before.out
    assert [item["applied_at"] for item in json.loads(run("db", "status", "--json").out)["items"]] == [None] * len(
        migrate.known()
    )

    assert run("db", "migrate").out.splitlines() == [f"applied {one.name}" for one in migrate.known()]
    assert run("db", "migrate").out.startswith("Nothing to apply")
    after = run("db", "status")
    assert after.status == 0
    assert "applied" in after.out
    assert run("jobs", "ls").status == 0


def test_the_script_does_the_same_by_another_tool(empty_url):
    script = run("db", "sql")
    assert script.status == 0
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(script.out)
    assert run("db", "status").status == 0


async def test_a_migration_that_was_changed_is_told(windlass_url, db):
    await db.rows(Statement("tests.change", "update windlass.migrations set checksum = 'other'"))
    told = run("db", "status")
    assert told.status == 1
    assert "changed" in told.out
    assert "use the version that applied it" in told.out
    assert run("db", "migrate").status == 1


def test_migrate_makes_the_embedded_database_and_stop_stops_it(home):
    assert run("db", "stop").out == f"No PostgreSQL runs in {home}.\n"
    made = run("db", "migrate")
    assert made.status == 0
    assert "`windlass db stop` stops it" in made.err
    assert run("jobs", "ls").err == "There are no such jobs.\n"
    assert run("db", "stop").out == f"Stopped PostgreSQL in {home}.\n"
    assert run("db", "stop").out == f"No PostgreSQL runs in {home}.\n"
