"""`--help` is at once there, because it loads nothing but words."""

import subprocess
import sys
import time
from importlib.metadata import entry_points

import pytest

import windlass
from cli.shell import run
from windlass.cli._root import COMMANDS

HEAVY = {"asyncpg", "pydantic", "rich.table", "asyncio", "structlog", "windlass.db", "windlass.engine", "windlass.client"}


def test_help_lists_every_command_with_a_line_about_it():
    told = run("--help")
    assert told.status == 0
    for name, entry in COMMANDS.items():
        assert f"\n  {name} " in told.out
        assert entry.help.split()[0] in told.out


@pytest.mark.parametrize(
    "args", [["--help"], ["jobs", "--help"], ["jobs", "ls", "--help"], ["worker", "--help"], ["up", "--help"]]
)
def test_help_loads_nothing_heavy(args):
    script = f"""
import sys, windlass.cli
sys.argv = ["windlass", *{args!r}]
try: windlass.cli.main()
except SystemExit: print(*sorted(sys.modules.keys() & {HEAVY!r}), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "Usage: windlass" in done.stdout
    assert done.stderr.split() == []


@pytest.mark.parametrize("args", [["--help"], ["jobs", "--help"]])
def test_help_answers_in_300_ms(args):
    def took() -> float:
        began = time.perf_counter()
        assert run(*args).status == 0
        return time.perf_counter() - began

    assert any(took() < 0.3 for _ in range(5))


def test_the_version_is_told():
    assert run("--version").out == f"windlass {windlass.__version__}\n"


def test_the_command_is_installed():
    (entry,) = entry_points(group="console_scripts", name="windlass")
    assert entry.value == "windlass.cli:main"
