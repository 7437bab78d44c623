"""`windlass workers`: who runs jobs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli._later import Later
from windlass.cli._words import AsJson, noun

if TYPE_CHECKING:
    from windlass import engine
    from windlass.cli import _connect as connect
    from windlass.cli import _shown as shown
else:
    engine, connect, shown = Later("windlass.engine"), Later("windlass.cli._connect"), Later("windlass.cli._shown")

app = noun("Who runs jobs.")
_SILENT_SECONDS = 10.0


@app.callback()
def workers() -> None:
    """Who runs jobs."""


@app.command("ls")
def ls(
    *, everyone: Annotated[bool, typer.Option("--all", help="Those that have ended, too.")] = False, as_json: AsJson = False
) -> None:
    """The workers that live, and how they are."""
    views = connect.on_database(lambda database: engine.workers.ls(database, ended=everyone))
    shown.listing(views, _COLUMNS, none="No worker runs. Start one with `windlass worker -A module:app`.", as_json=as_json)


def _status(view: "engine.workers.WorkerView") -> str:
    if view.ended_at is not None:
        return view.ended_why or "ended"
    return "silent" if view.silent_seconds > _SILENT_SECONDS else "alive"


_COLUMNS: "dict[str, Callable[[engine.workers.WorkerView], str]]" = {
    "name": lambda view: view.name,
    "status": _status,
    "running": lambda view: f"{view.running}/{view.concurrency}",
    "queues": lambda view: ",".join(view.queues),
    "memory": lambda view: f"{view.rss_bytes >> 20} MB",
    "host": lambda view: f"{view.hostname} {view.pid}",
    "started": lambda view: shown.ago(view.started_at),
    "last seen": lambda view: shown.ago(view.last_seen_at),
}
