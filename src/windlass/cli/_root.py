"""`windlass`: the table of its commands, and the one place where errors become words and exit statuses."""

import io
import sys
import traceback
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import windlass
from windlass.cli._words import Group
from windlass.model.errors import Disconnected, WindlassError


class Entry(NamedTuple):
    """Where a command is found: `attribute` is a function, or a Typer with commands of its own."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "up": Entry("windlass.cli.up", "up", "Everything in one go, until Ctrl-C: database, worker, demo application."),
    "worker": Entry("windlass.cli.worker", "worker", "Run the jobs of an application."),
    "db": Entry("windlass.cli.db", "app", "The database's migrations: run, show, print; stop the embedded one."),
    "enqueue": Entry("windlass.cli.enqueue", "enqueue", "Ask for a job, and follow it with --wait."),
    "jobs": Entry("windlass.cli.jobs", "app", "Jobs: list, show, cancel, retry, read what they said."),
    "definitions": Entry("windlass.cli.definitions", "app", "What may run."),
    "workers": Entry("windlass.cli.workers", "app", "Who runs it."),
    "doctor": Entry("windlass.cli.doctor", "doctor", "Check the database and what runs on it; say what to do."),
    "bench": Entry("windlass.cli.bench", "bench", "Measure this database and this machine."),
}
_HINT = "Is it running, and is WINDLASS_DATABASE_URL right? `windlass doctor` looks closer."
_BUG = "This is a bug in Windlass. Please report it, with all of the above and what `windlass --version` says."


class Commands(Group):
    """The table as a group: a command's module is imported when the command is asked for, not to list it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        """Import it."""
        del ctx
        entry = COMMANDS.get(cmd_name)
        return None if entry is None else _load(entry)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """From the table alone."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _load(entry: Entry) -> Any:
    found = getattr(import_module(entry.module), entry.attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command()(found)
    return typer.main.get_command(alone)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"windlass {windlass.__version__}")
        raise typer.Exit


def _windlass(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Say which, and exit.")
    ] = False,
) -> None:
    """Windlass: a jobs control plane on PostgreSQL."""
    del version


root = typer.Typer(cls=Commands, callback=_windlass, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def main() -> None:
    """Run the command line, and exit: 0 done, 1 failed, 2 wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter is no reason to fail
    try:
        typer.main.get_command(root)(prog_name="windlass")
    except WindlassError as problem:
        print(f"Error: {problem}", file=sys.stderr)
        if isinstance(problem, Disconnected):
            print(_HINT, file=sys.stderr)
    except Exception:
        traceback.print_exc()
        print(_BUG, file=sys.stderr)
    sys.exit(1)
