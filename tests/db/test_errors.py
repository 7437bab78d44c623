"""What PostgreSQL says, as an error that says what to do; and nobody is blamed for what is not his fault."""

from uuid import uuid4

import pytest

from windlass import Windlass
from windlass.db import Database, Listener, Statement
from windlass.model.errors import DatabaseError, Disconnected, NotConfigured, NotStorable, UnknownDefinition, UsageError
from windlass.testing import _with_database

_RAISE = "do $$ begin raise exception 'so it is' using errcode = '{state}'; end $$"


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        *[(state, NotStorable) for state in ("22P05", "22021", "22P02", "22003", "54000", "54001")],
        *[(state, Disconnected) for state in ("08006", "57P01", "53300", "25006", "40001", "40P01")],
        *[(state, NotConfigured) for state in ("3D000", "28P01", "28000")],
        *[(state, DatabaseError) for state in ("53100", "53200", "57014", "55P03", "58030", "XX000", "23505", "23514", "42501")],
    ],
)
async def test_only_a_value_that_can_never_be_stored_is_the_callers_fault(db, state, kind):
    with pytest.raises(kind, match="so it is") as raised:
        await db.rows(Statement("tests.raise", _RAISE.format(state=state)))
    assert type(raised.value) is kind
    assert isinstance(raised.value, UsageError) == (kind is NotStorable)


@pytest.mark.parametrize("using", ["", ", detail = 'greet'"], ids=["bare", "with a sentence"])
async def test_what_our_sql_refuses_is_known_by_its_detail(db, using):
    told = "There is none." if using else "greet"
    text = f"do $$ begin raise exception using errcode = 'WL001', message = '{told}'{using}; end $$"
    with pytest.raises(UnknownDefinition, match="'greet'") as raised:
        await db.rows(Statement("tests.raise", text))
    assert raised.value.key == "greet"


async def test_a_nul_is_the_values_fault(db):
    with pytest.raises(NotStorable):
        await db.value(Statement("tests.nul", "select $1::text"), "a\x00b")


async def test_a_database_that_does_not_exist_says_what_to_do(windlass_server):
    with pytest.raises(NotConfigured, match='"nowhere" does not exist.*createdb.*WINDLASS_DATABASE_URL'):
        await Windlass(_with_database(windlass_server, "nowhere")).open()


async def test_a_user_who_is_not_known_says_what_to_do(windlass_server):
    with pytest.raises(NotConfigured, match="stranger.*put the user in the database URL"):
        await Database.open(windlass_server.replace("//postgres@", "//stranger@"))


async def test_a_user_who_may_not_read_says_what_to_do(db, windlass_url):
    poor = f"poor_{uuid4().hex[:8]}"
    await db.rows(Statement("tests.role", f"create role {poor} login"))
    try:
        with pytest.raises(DatabaseError, match="permission denied.*grant it"):
            await Windlass(windlass_url.replace("//postgres@", f"//{poor}@")).open()
    finally:
        await db.rows(Statement("tests.role", f"drop role {poor}"))


@pytest.mark.parametrize("url", ["postgresql://h:abc/x", "mysql://h/x"])
async def test_a_listen_url_that_is_none_is_told_at_the_start(url):
    with pytest.raises(NotConfigured, match="WINDLASS_LISTEN_URL"):
        await Listener(url, "windlass").start()


async def test_a_listen_url_that_names_no_database_is_told_at_the_start(windlass_server):
    with pytest.raises(NotConfigured, match="put the listen URL"):
        await Listener(_with_database(windlass_server, "nowhere"), "windlass").start()
