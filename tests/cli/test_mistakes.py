"""A person's mistake is told in a line or two, with what to do, and never as a traceback."""

import sys
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from cli.shell import Ran, run
from windlass.cli import main
from windlass.cli._root import COMMANDS, Entry

UNKNOWN = str(uuid4())
USAGE = [
    (["nonsense"], "No such command"),
    (["jobs", "nonsense"], "No such command"),
    (["jobs", "show", "abc"], "valid UUID"),
    (["jobs", "cancel"], "Missing argument"),
    (["jobs", "ls", "--status", "bogus"], "is not one of 'scheduled'"),
    (["jobs", "ls", "--limit", "501"], "--limit"),
    (["jobs", "logs", UNKNOWN, "-f", "--json"], "give one of them"),
    (["enqueue", "greet", "--payload", "{"], "not JSON"),
    (["enqueue", "greet", "--payload", "[1]"], "must be a JSON object"),
    (["enqueue", "greet", "--payload", '{"name": NaN}'], "JSON has no such number"),
    (["enqueue", "greet", "--payload", '{"name": "\\u0000"}'], "NUL"),
    (["enqueue", "greet", "--payload", '{"name": 123456789012345678901234567890}'], "cannot be stored"),
    (["enqueue", "greet", "--at", "2030-01-01T00:00:00"], "has no offset"),
    (["enqueue", "greet", "--at", "tomorrow"], "is not a time"),
    (["enqueue", "greet", "--in", "5x"], "is not a duration"),
    (["enqueue", "greet", "--in", "5m", "--at", "2030-01-01T00:00:00Z"], "not both"),
    (["enqueue", "greet", "--tenant", "a\tb"], "printable"),
    (["worker"], "--app"),
    (["worker", "-A", "shop:app", "--processes", "0"], "--processes"),
    (["worker", "-A", "nonsense"], "write module:attribute"),
    (["worker", "-A", "nonsense", "--processes", "2"], "write module:attribute"),
    (["up", "-A", ":app"], "write module:attribute"),
    (["worker", "-A", "shop:app", "--queues", "a b"], "'a b' cannot be a queue"),
    (["worker", "-A", "shop:app", "--queues", "mail," + "x" * 64], "cannot be a queue"),
    (["worker", "-A", "shop:app", "--queues", " ,"], "names no queue"),
]
FAILURES = [
    (["jobs", "show", UNKNOWN], f"There is no job {UNKNOWN}"),
    (["jobs", "cancel", UNKNOWN], f"There is no job {UNKNOWN}"),
    (["jobs", "ls", "--tenant", "nobody"], "There is no tenant 'nobody'"),
    (["enqueue", "nothing"], "There is no definition 'nothing'"),
    (["enqueue", "greet", "--payload", '{"nme": 1}'], "does not fit 'greet'"),
    (["worker", "-A", "no.such.module:app"], "cannot be found"),
    (["worker", "-A", "shop:greets"], "has no 'greets'"),
    (["worker", "-A", "shop:time"], "not a Windlass app"),
    (["worker", "-A", "broken_shop:app"], "broken_shop.py, line 5"),
    (["up", "-A", "no.such.module:app"], "cannot be found"),
    (["enqueue", "greet", "--tenant", "nobody"], "There is no tenant 'nobody'"),
]
DATABASES = [
    ("postgresql://127.0.0.1:1/x", "Is it running"),
    ("postgresql://localhost:abc/x", "The database URL (WINDLASS_DATABASE_URL) is wrong"),
    ("mysql://localhost/x", "The database URL (WINDLASS_DATABASE_URL) is wrong"),
]
COMMANDS_OF_A_DATABASE = [["jobs", "ls"], ["db", "migrate"], ["worker", "-A", "shop:app"]]


@pytest.mark.parametrize(("args", "told"), USAGE)
def test_wrong_usage_is_2(args, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["windlass", *args])
    with pytest.raises(SystemExit) as exited:
        main()
    _refused(Ran(exited.value.code, *capsys.readouterr()), 2, told)


def test_what_cannot_be_done_is_1(shop_url):
    for args, told in FAILURES:
        _refused(run(*args), 1, told)


@pytest.mark.parametrize(("url", "told"), DATABASES)
def test_a_database_that_cannot_be_reached_is_1(url, told):
    _refused(run("jobs", "ls", WINDLASS_DATABASE_URL=url), 1, told)


@pytest.mark.parametrize("args", COMMANDS_OF_A_DATABASE)
def test_a_database_that_does_not_exist_is_1(windlass_server, args):
    url = urlunsplit(urlsplit(windlass_server)._replace(path="/nowhere"))
    _refused(run(*args, WINDLASS_DATABASE_URL=url), 1, '"nowhere" does not exist): create it')


@pytest.mark.parametrize("url", ["postgresql://localhost:abc/x", "mysql://localhost/x"])
def test_a_worker_with_a_listen_url_that_is_none_is_1(shop_url, url):
    _refused(run("worker", "-A", "shop:app", WINDLASS_LISTEN_URL=url), 1, "The listen URL (WINDLASS_LISTEN_URL) is wrong")


@pytest.mark.parametrize("args", [["jobs", "ls"], ["worker", "-A", "shop:app"]])
def test_a_home_without_a_database_is_left_as_it_is(home, args):
    _refused(run(*args), 1, "no database: set WINDLASS_DATABASE_URL or run `windlass up`")
    assert not list(home.iterdir())


@pytest.mark.parametrize("args", [["jobs", "ls"], ["worker", "-A", "shop:app"], ["worker", "-A", "shop:app", "--processes", "2"]])
def test_a_database_without_the_schema_says_what_to_run(empty_url, args):
    _refused(run(*args), 1, "run `windlass db migrate`")


def bug() -> None:
    raise ZeroDivisionError


def test_what_nobody_expected_is_shown_in_full_with_a_request_to_report_it(monkeypatch, capsys):
    monkeypatch.setitem(COMMANDS, "doctor", Entry(__name__, "bug", "A command with a bug."))
    monkeypatch.setattr(sys, "argv", ["windlass", "doctor"])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 1
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "ZeroDivisionError" in told
    assert "Please report it" in told


def _refused(ran, status: int, told: str) -> None:
    assert (ran.status, ran.out) == (status, "")
    assert told in ran.err
    assert "Traceback" not in ran.err
    errors = ran.err[ran.err.index("Error: ") :] if "Error: " in ran.err else ran.err
    assert len(errors.splitlines()) <= 2
