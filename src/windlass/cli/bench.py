"""`windlass bench`: how fast this database and this machine are, and Windlass on them."""

import sys
from typing import Annotated

import orjson
import typer

from windlass import bench as room
from windlass.bench import NAMES, Plan
from windlass.cli import _connect as connect
from windlass.cli._words import AsJson

bench = typer.Typer(add_completion=False, rich_markup_mode=None, subcommand_metavar="")
_PLAN = Plan()
_HELD = "drain_held_snapshot"
_INTERRUPTED = 130


def _known(names: list[str]) -> list[str]:
    for name in names:
        if name not in NAMES:
            msg = f"there is no {name!r}. There are: {', '.join(NAMES)}."
            raise typer.BadParameter(msg)
    return names


Jobs = Annotated[int, typer.Option(min=1000, help="How many jobs a round drains, and enqueue_bulk enqueues.")]
Tenants = Annotated[int, typer.Option(min=1, help="Over how many tenants drain_tenants spreads them.")]
History = Annotated[int, typer.Option(min=0, help="How many finished jobs drain_history has behind it.")]
HoldSnapshot = Annotated[bool, typer.Option("--hold-snapshot", help=f"Measure {_HELD} besides what --only names.")]
HoldSeconds = Annotated[float, typer.Option(min=0.5, help=f"How long {_HELD} holds its snapshot.")]
Only = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help=f"Measure this line only; may be repeated: {', '.join(NAMES)}.")
]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds of each line and of its ceiling, in turns; medians are told.")]


@bench.callback(invoke_without_command=True)
def measure(
    *,
    jobs: Jobs = _PLAN.jobs,
    tenants: Tenants = _PLAN.tenants,
    hold_snapshot: HoldSnapshot = False,
    hold_seconds: HoldSeconds = _PLAN.hold_seconds,
    history: History = _PLAN.history,
    only: Only = None,
    rounds: Rounds = _PLAN.rounds,
    as_json: AsJson = False,
) -> None:
    """Measure this database and this machine: the bare-SQL ceiling, Windlass on it in the same run, and their ratio.

    It works in a database of its own, on WINDLASS_DATABASE_URL's server or the embedded one, and drops it at the end.
    All lines take about four minutes; `--only drain_1 --jobs 20000` takes a few seconds.
    """
    chosen = _known(only or [])
    if chosen and hold_snapshot:
        chosen.append(_HELD)
    url = connect.find_url(connect.settings(), make=True)
    try:
        report = room.run(Plan(jobs, tenants, history, hold_seconds, rounds, tuple(chosen)), url)
    except KeyboardInterrupt:
        typer.echo("Stopped. The bench's database and workers are gone.", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(room.as_json(report), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    else:
        room.print_table(report)
