"""What a run found: as JSON (API §1), and as a table for people."""

from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from windlass.bench._lines import LINES, Bound
from windlass.bench._plan import Plan
from windlass.bench._result import Ceilings, Figure, Result

_DIGITS = 4
_PLAIN_WIDTH = 120
_SHOWN = {True: "[green]ok[/]", False: "[red]short[/]", None: ""}


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a run found."""

    plan: Plan
    ceilings: Ceilings
    results: list[Result]
    machine: dict[str, object]
    postgres: dict[str, str]
    version: str


def as_json(report: Report) -> dict[str, object]:
    """The shape other programs rely on."""
    return {
        "ceiling": {name: _rounded(value) for name, value in _ceiling(report).items()},
        "results": [_line(result) for result in report.results],
        "machine": report.machine,
        "postgres": report.postgres,
        "plan": {
            "jobs": report.plan.jobs, "tenants": report.plan.tenants, "history": report.plan.history,
            "hold_seconds": report.plan.hold_seconds, "rounds": report.plan.rounds,
        },
        "version": report.version,
    }  # fmt: skip


def print_table(report: Report) -> None:
    """A table, with the verdict on each line that has a target."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH)
    told = f"Windlass {report.version} on PostgreSQL {report.postgres['server_version']}, {_machine(report)}"
    console.print(told, highlight=False)
    console.print(_table(report), highlight=False)


def _table(report: Report) -> Table:
    table = Table("", "", "of ceiling", "against the target", "", box=None, pad_edge=False)
    table.columns[1].justify = table.columns[2].justify = "right"
    for name, value in _ceiling(report).items():
        table.add_row(f"[dim]ceiling {name.removesuffix('_per_s')}[/]", _rate(value))
    for result in report.results:
        line = LINES[result.name]
        against = ", ".join(_against(bound, result) for bound in line.bounds)
        table.add_row(result.name, _measured(result), _number(result.figures.get("ratio")), against, _SHOWN[line.met(result)])
    return table


def _against(bound: Bound, result: Result) -> str:
    return f"{_number(result.figures.get(bound.figure))} {bound.words} ({bound.wanted})"


def _machine(report: Report) -> str:
    return f"{report.machine['cores']} cores, {report.machine['cpu']}"


def _ceiling(report: Report) -> dict[str, float]:
    return {
        "claim_settle_per_s": median(report.ceilings.claim_settle),
        "insert_commit_per_s": median(report.ceilings.insert_commit),
    }


def _line(result: Result) -> dict[str, object]:
    line = LINES[result.name]
    told = {name: _rounded(value) for name, value in result.figures.items()}
    return {"name": result.name, **told, "target": line.target or None, "met": line.met(result)}


def _rounded(value: Figure) -> Figure:
    """Four digits: there are no more in it."""
    if isinstance(value, list):
        return [float(f"{one:.{_DIGITS}g}") for one in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _measured(result: Result) -> str:
    figures = result.figures
    if "per_s" in figures:
        return _rate(figures["per_s"])
    if "p50_ms" in figures:
        return f"{_number(figures['p50_ms'])} / {_number(figures['p99_ms'])} ms"
    return f"{_number(figures.get('mb'))} MB"


def _rate(value: Figure) -> str:
    return f"{value:,.0f}/s" if isinstance(value, float | int) else "-"


def _number(value: Figure) -> str:
    if not isinstance(value, float | int):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"  # noqa: PLR2004
