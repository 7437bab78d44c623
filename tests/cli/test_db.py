"""The database's migrations, from nothing to what this version needs."""

import json
import re

import psycopg
import pytest

from cli.shell import run
from windlass import Windlass
from windlass.db import Statement, migrate
from windlass.model.errors import SchemaMismatch


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


_OTHER = {
    "older": ("delete from windlass.migrations where version = 1", "lacks migration 0001_foundation: run `windlass db migrate`"),
    "newer": (
        "insert into windlass.migrations (version, name, checksum) values (9999, '9999_flying_cars', 'x')",
        "has migration 9999_flying_cars, which this version of Windlass does not know",
    ),
}


@pytest.mark.parametrize(("change", "told"), _OTHER.values(), ids=_OTHER)
async def test_a_database_of_another_version_is_left_alone(shop_url, db, change, told):
    await db.rows(Statement("tests.change", change))
    for args in (["worker", "-A", "shop:app"], ["jobs", "ls"], ["enqueue", "greet"]):
        refused = run(*args)
        assert (refused.status, refused.out) == (1, "")
        assert told in refused.err
        assert "Traceback" not in refused.err
    with pytest.raises(SchemaMismatch, match=re.escape(told)):
        await Windlass(shop_url).open()
    assert run("doctor").status == 1


@pytest.mark.parametrize(
    ("change", "words"), [(_OTHER["older"][0], ["pending", "run `windlass db migrate`"]),
                          (_OTHER["newer"][0], ["from the future", "upgrade this installation"])], ids=_OTHER,
)  # fmt: skip
async def test_the_status_of_a_database_of_another_version_says_what_to_do(windlass_url, db, change, words):
    await db.rows(Statement("tests.change", change))
    told = run("db", "status")
    assert told.status == 1
    for word in words:
        assert word in told.out


async def test_a_database_of_a_newer_version_is_not_migrated(windlass_url, db):
    await db.rows(Statement("tests.change", _OTHER["newer"][0]))
    refused = run("db", "migrate")
    assert (refused.status, refused.out) == (1, "")
    assert "Upgrade this installation" in refused.err


def test_migrate_makes_the_embedded_database_and_stop_stops_it(home):
    assert run("db", "stop").out == f"No PostgreSQL runs in {home}.\n"
    made = run("db", "migrate")
    assert made.status == 0
    assert "`windlass db stop` stops it" in made.err
    assert run("jobs", "ls").err == "There are no such jobs.\n"
    assert run("db", "stop").out == f"Stopped PostgreSQL in {home}.\n"
    assert run("db", "stop").out == f"No PostgreSQL runs in {home}.\n"
