"""`windlass doctor`: what is well, what is not, and what to do."""

from typing import TYPE_CHECKING

import typer

from windlass.cli._later import Later
from windlass.cli._words import AsJson
from windlass.model.errors import WindlassError
from windlass.settings import Settings

if TYPE_CHECKING:
    import asyncio

    from windlass.cli import _connect as connect
    from windlass.cli import _shown as shown
    from windlass.processes import doctor as clinic
else:
    asyncio, connect, shown = Later("asyncio"), Later("windlass.cli._connect"), Later("windlass.cli._shown")
    clinic = Later("windlass.processes.doctor")

_SIGNS = {"ok": "✓", "warning": "!", "error": "✗"}


def doctor(*, as_json: AsJson = False) -> None:
    """Check the database, and what runs on it: one line each, with what to do. Exit status 1 if something is wrong."""
    settings = connect.settings()
    findings = _examine(settings)
    well = all(finding.mark != "error" for finding in findings)
    if as_json:
        shown.document({"ok": well, "checks": findings})
    else:
        for finding in findings:
            _tell(finding)
    if not well:
        raise typer.Exit(1)


def _examine(settings: Settings) -> "list[clinic.Finding]":
    try:
        url = connect.find_url(settings)
    except WindlassError as problem:
        return [clinic.Finding("database", "error", str(problem))]
    with shown.busy("Looking"):
        return asyncio.run(clinic.examine(settings, url))


def _tell(finding: "clinic.Finding") -> None:
    shown.say_words(_SIGNS[finding.mark], f"{finding.name:<12}", finding.text)
    if finding.advice:
        shown.say(f"{'':<15}→ {finding.advice}")
