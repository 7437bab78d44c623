"""`windlass up`: everything in one go."""

from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

import windlass
from windlass.cli._later import Later
from windlass.cli._words import app_path

if TYPE_CHECKING:
    from windlass import client, telemetry
    from windlass.cli import _connect as connect
    from windlass.cli import _shown as shown
    from windlass.processes import up as processes
    from windlass.processes import worker
else:
    client, telemetry = Later("windlass.client"), Later("windlass.telemetry")
    connect, shown = Later("windlass.cli._connect"), Later("windlass.cli._shown")
    processes, worker = Later("windlass.processes.up"), Later("windlass.processes.worker")

_DEMO = "windlass.demo:app"
_TRY_DEMO = ('enqueue greet --payload \'{"name": "Ada"}\' --wait', "jobs ls", "doctor")
_TRY = ("definitions ls", "jobs ls", "doctor")


def up(
    *,
    home: Annotated[Path | None, typer.Option(help="Where the embedded database lies. Without it WINDLASS_HOME.")] = None,
    app: Annotated[
        str | None, typer.Option("-A", "--app", parser=app_path, metavar="MODULE:APP", help="Run this application, not the demo.")
    ] = None,
    no_demo: Annotated[bool, typer.Option("--no-demo", help="Run no demo application.")] = False,
) -> None:
    """Everything in one go, until Ctrl-C: database, migrations, a worker, and an application to try.

    The database is WINDLASS_DATABASE_URL, else an embedded PostgreSQL.
    """
    settings = connect.settings()
    if home is not None:
        settings = replace(settings, home=home.expanduser().absolute())
    telemetry.configure_logs(settings.log_format)
    path = app or (None if no_demo else _DEMO)
    chosen = worker.load_app(path) if path else client.Windlass(name="windlass.up")
    telemetry.route_standard_logging()
    command = f"WINDLASS_HOME={home} windlass" if home else "windlass"
    runner = worker.runner()
    with ExitStack() as stack:
        with nullcontext() if settings.database_url else shown.busy(f"Starting PostgreSQL in {settings.home}"):
            ground = stack.enter_context(processes.standing_on(settings))
        with shown.busy("Migrating"):
            runner.run(processes.migrated(ground.url))
        plan = worker.WorkerPlan(chosen, ground.url, settings.listen_url)
        status = runner.run(worker.run_worker(plan, ready=lambda: _greet(ground, chosen, path, command)))
        shown.say("Stopping PostgreSQL." if ground.ours_to_stop else "The database goes on running, for it did before.")
    worker.leave_at_once(status)


def _greet(ground: "processes.Ground", app: "client.Windlass", path: str | None, command: str) -> None:
    lies = f"embedded PostgreSQL, its data in {ground.server.data_dir}" if ground.server else "as WINDLASS_DATABASE_URL says"
    keys = " ".join(sorted(app.handlers)) or "nothing"
    shown.say(f"Windlass {windlass.__version__} is up. Ctrl-C stops it.\n")
    shown.say(f"  database  {_without_password(ground.url)}\n            {lies}")
    shown.say(f"  worker    runs {keys}" + (f"\n            of {path}" if path else ""))
    shown.say("\nTry in another terminal:")
    for words in _TRY_DEMO if path == _DEMO else _TRY:
        shown.say(f"  {command} {words}")
    shown.say("")


def _without_password(url: str) -> str:
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":…@", 1) if password else url
