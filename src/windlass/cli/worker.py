"""`windlass worker`: run an application's jobs, in one process or several."""

import os
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli._later import Later
from windlass.cli._words import duration, name
from windlass.settings import load_settings

if TYPE_CHECKING:
    import asyncio

    from windlass import telemetry
    from windlass.cli import _connect as connect
    from windlass.processes import supervisor
    from windlass.processes import worker as process
else:
    asyncio, telemetry = Later("asyncio"), Later("windlass.telemetry")
    connect, supervisor = Later("windlass.cli._connect"), Later("windlass.processes.supervisor")
    process = Later("windlass.processes.worker")

_GRACE = 30.0


def worker(
    *,
    app: Annotated[str, typer.Option("-A", "--app", metavar="MODULE:APP", help="The application whose jobs to run.")],
    queues: Annotated[
        str | None, typer.Option(parser=name, metavar="A,B", help="Only from these; else from all its jobs go to.")
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
    plan = process.WorkerPlan(chosen, connect.find_url(settings), settings.listen_url, _split(queues), concurrency, called, grace)
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


def _split(queues: str | None) -> list[str]:
    return [queue.strip() for queue in (queues or "").split(",") if queue.strip()]
