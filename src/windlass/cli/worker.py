"""`windlass worker`: run an application's jobs, in one process or several."""

import os
import socket
import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli._later import Later
from windlass.cli._words import app_path, duration, name
from windlass.cli._words import queues as queue_names
from windlass.settings import load_settings

if TYPE_CHECKING:
    import asyncio

    import structlog

    from windlass import telemetry
    from windlass.cli import _connect as connect
    from windlass.processes import supervisor
    from windlass.processes import worker as process
else:
    asyncio, structlog, telemetry = Later("asyncio"), Later("structlog"), Later("windlass.telemetry")
    connect, supervisor = Later("windlass.cli._connect"), Later("windlass.processes.supervisor")
    process = Later("windlass.processes.worker")

_GRACE = 30.0


def worker(
    *,
    app: Annotated[
        str, typer.Option("-A", "--app", parser=app_path, metavar="MODULE:APP", help="The application whose jobs to run.")
    ],
    queues: Annotated[
        str | None, typer.Option(parser=queue_names, metavar="A,B", help="Only from these; else from all its jobs go to.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=10_000, help="Jobs at once, per process.")] = 100,
    processes: Annotated[int, typer.Option(min=1, max=256, help="Worker processes; those that die are started anew.")] = 1,
    called: Annotated[
        str | None, typer.Option("--name", parser=name, metavar="NAME", help="Unique; lets a restart take over at once.")
    ] = None,
    grace: Annotated[
        float, typer.Option(parser=duration, metavar="DURATION", help="How long running jobs may go on after SIGTERM.")
    ] = _GRACE,
    tether: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the jobs of an application until SIGTERM or Ctrl-C: the first stops gracefully, a second hurries, a third kills."""
    if processes > 1:
        raise typer.Exit(_supervise(_argv(app, queues, concurrency, grace), called, processes))
    settings = connect.settings()
    telemetry.configure_logs(settings.log_format)
    chosen = process.load_app(app)
    telemetry.route_standard_logging()
    only = queues.split(",") if queues else []
    _warn_of_idle_queues(only, {definition.queue for definition in chosen.definitions})
    plan = process.WorkerPlan(chosen, connect.find_url(settings), settings.listen_url, only, concurrency, called, grace)
    runner = process.runner()
    process.leave_at_once(runner.run(_work(plan, tether)))


async def _work(plan: "process.WorkerPlan", tether: int | None) -> int:
    if tether is None:
        return await process.run_worker(plan)
    stopping = asyncio.Event()
    return await process.run_worker(plan, ready=supervisor.tethered(tether, stopping), stopping=stopping)


def _supervise(argv: Sequence[str], called: str | None, count: int) -> int:
    telemetry.configure_logs(load_settings().log_format)

    def command(child: str, tether: int) -> list[str]:
        return [*argv, "--name", child, "--tether", str(tether)]

    return asyncio.run(supervisor.Supervisor(command, called or f"{socket.gethostname()}-{os.getpid()}", count).run())


def _argv(app: str, queues: str | None, concurrency: int, grace: float) -> list[str]:
    only = ["--queues", queues] if queues else []
    return [
        sys.executable,
        "-m",
        "windlass",
        "worker",
        "-A",
        app,
        *only,
        "--concurrency",
        str(concurrency),
        "--grace",
        str(grace),
    ]


def _warn_of_idle_queues(only: Sequence[str], filled: AbstractSet[str]) -> None:
    if idle := [queue for queue in only if queue not in filled]:
        told = "no job of this application goes to these queues, unless somebody has moved one there"
        structlog.get_logger("windlass.cli.worker").warning(told, queues=idle)
