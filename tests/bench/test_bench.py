"""`windlass bench`: every line measured, in the shape others rely on, and nothing left behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psutil
import pytest

from windlass.bench import NAMES
from windlass.bench._ground import with_database
from windlass.bench._lines import LINES, Bound
from windlass.bench._result import Result, in_turns, ratio
from windlass.db import Database, Statement

_COMMAND = [sys.executable, "-c", "from windlass.cli import main; main()", "bench"]
_COMPARE = Path(__file__).parents[2] / "bench" / "compare.py"
_TINY = ["--jobs", "2000", "--rounds", "1", "--hold-seconds", "1", "--history", "5000", "--tenants", "50"]


@pytest.fixture
def bench(windlass_server, tmp_path):
    """Start the command on the tests' own server."""
    started = []

    def start(*arguments, url=windlass_server):
        environment = {**os.environ, "WINDLASS_DATABASE_URL": url}
        started.append(subprocess.Popen(
            [*_COMMAND, *arguments], env=environment, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ))  # fmt: skip
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def ask(url, text):
    database = await Database.open(url, size=1)
    try:
        return await database.value(Statement("tests.ask", text))
    finally:
        await database.close()


def exists(url, name):
    return asyncio.run(ask(url, f"select exists (select from pg_database where datname = '{name}')"))


def worker_of(process):
    """The first worker process that the bench starts, and the database that it works in."""
    while process.poll() is None:
        for child in psutil.Process(process.pid).children():
            if "windlass.bench._worker_process" in child.cmdline():
                return child, urlsplit(child.cmdline()[-2]).path[1:]
        time.sleep(0.02)
    pytest.fail(process.stderr.read())


def test_every_line_is_measured_and_told_in_the_shape_others_rely_on(bench, windlass_server, tmp_path):
    process = bench(*_TINY, "--json")
    _, database = worker_of(process)
    out, err = process.communicate()
    assert process.returncode == 0, err
    told = json.loads(out)
    assert set(told) >= {"ceiling", "results", "machine", "version", "postgres"}
    assert told["ceiling"]["claim_settle_per_s"] > 0
    assert told["ceiling"]["insert_commit_per_s"] > 0
    assert [line["name"] for line in told["results"]] == list(NAMES)
    lines = {line["name"]: line for line in told["results"]}
    for name in NAMES[:8]:
        assert lines[name]["per_s"] > 0
        assert lines[name]["ratio"] > 0
    assert 0 < lines["latency"]["p50_ms"] <= lines["latency"]["p99_ms"]
    for name in NAMES[2:5]:
        assert lines[name]["ratio_to_drain_1"] > 0
    assert {"ratio_to_free", "flat"} <= set(lines["drain_held_snapshot"])
    assert set(told["machine"]) == {"cores", "memory_gb", "cpu", "python", "os"}
    assert not exists(windlass_server, database)
    assert compared(tmp_path, told)


def compared(tmp_path, told):
    """A result set against itself has changed nowhere."""
    (tmp_path / "a.json").write_text(json.dumps(told))
    shown = subprocess.run(
        [sys.executable, _COMPARE, "a.json", "a.json"], cwd=tmp_path, text=True, capture_output=True, check=True
    )
    return shown.stdout.count("1.00") > len(NAMES) and "better" not in shown.stdout


def test_one_line_alone_is_a_table_with_its_ceilings(bench):
    out, err = bench("--only", "enqueue_single", "--jobs", "1000", "--rounds", "1").communicate()
    assert err.split() == ["enqueue_single"]
    for word in ("claim_settle", "insert_commit", "enqueue_single"):
        assert word in out
    assert "drain_1" not in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle_it_leaves_no_database_and_no_worker(bench, windlass_server, number):
    process = bench("--only", "drain_1")
    worker, database = worker_of(process)
    process.send_signal(number)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Stopped" in err
    assert not worker.is_running()
    assert not exists(windlass_server, database)


def test_killed_it_leaves_no_worker(bench, windlass_server):
    process = bench("--only", "drain_1")
    worker, database = worker_of(process)
    process.kill()
    process.wait()
    gone, _ = psutil.wait_procs([worker], timeout=20)
    assert gone
    asyncio.run(ask(windlass_server, f"drop database {database} with (force)"))


def test_a_dead_worker_fails_the_run(bench, windlass_server):
    process = bench("--only", "drain_1")
    worker, database = worker_of(process)
    worker.kill()
    _, err = process.communicate()
    assert process.returncode == 1
    assert "worker process ended" in err
    assert not exists(windlass_server, database)


@pytest.mark.parametrize("wrong", [("--only", "drain_3"), ("--jobs", "0"), ("--rounds", "0")])
def test_wrong_usage(bench, wrong):
    process = bench(*wrong)
    _, err = process.communicate()
    assert process.returncode == 2
    assert "Invalid value" in err


def test_a_user_who_may_not_create_databases_is_told_what_to_do(bench, windlass_server):
    poor = f"poor_{uuid4().hex[:8]}"
    asyncio.run(ask(windlass_server, f"create role {poor} login"))
    process = bench("--only", "latency", url=windlass_server.replace("//postgres@", f"//{poor}@"))
    _, err = process.communicate()
    asyncio.run(ask(windlass_server, f"drop role {poor}"))
    assert process.returncode == 1
    assert "CREATEDB" in err


def test_the_table_of_lines_has_all_names_in_order():
    assert tuple(LINES) == NAMES


@pytest.mark.parametrize(
    ("url", "moved"),
    [
        ("postgresql://u:p@h:5/a?sslmode=require", "postgresql://u:p@h:5/b?sslmode=require"),
        ("postgresql://postgres@/a?host=%2Fvar%2Frun&port=5432", "postgresql://postgres@/b?host=%2Fvar%2Frun&port=5432"),
        ("postgresql://h?dbname=a", "postgresql://h/b"),
    ],
)
def test_another_database_of_the_same_server(url, moved):
    assert with_database(url, "b") == moved


async def test_rounds_take_turns_and_none_always_comes_first():
    said = []

    async def say(word):
        said.append(word)
        return word

    found = await in_turns(3, lambda: say("a"), lambda: say("b"))
    assert "".join(said) == "abbaab"
    assert found == [["a"] * 3, ["b"] * 3]


def test_a_ratio_is_the_median_of_each_rounds_own():
    assert ratio([10, 50, 30], [10, 100, 30]) == 1


@pytest.mark.parametrize(("value", "met"), [(0.6, True), (0.59, False), (None, None)])
def test_a_bound_is_met_or_not_or_cannot_be_told(value, met):
    assert Bound("ratio", "of ceiling", at_least=0.6).met(Result("drain_1", {"ratio": value})) is met
