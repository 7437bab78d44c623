"""The worker process: an app's handlers on a PostgreSQL transport, with the chores beside it."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FrameType, ModuleType
from uuid import uuid4

import structlog
import uvloop

import windlass
from windlass import engine
from windlass.client import Windlass
from windlass.db import MISSED, Database, Listener, migrate
from windlass.model import WorkerInfo
from windlass.model.errors import NotConfigured
from windlass.processes.chores import Chores, make_partitions
from windlass.transports.birth import birth_of
from windlass.transports.postgres import PostgresTransport
from windlass.worker import JobLogHandler, Worker, WorkerOptions

_log = structlog.get_logger("windlass.processes.worker")
_POOL = 6
_POLL, _POLL_UNHEARD = 1.0, 0.1
_ENOUGH = 3  # signals


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What to run."""

    app: Windlass
    database_url: str
    listen_url: str | None = None
    queues: Sequence[str] = ()
    concurrency: int = 100
    name: str | None = None
    grace: float = 30.0
    lease_seconds: float = engine.LEASE_SECONDS


def load_app(path: str) -> Windlass:
    """The app at `module:attribute`, imported with the current directory in reach; raises NotConfigured."""
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        msg = f"{path!r} does not name an app: write -A module:attribute, such as -A myproject.jobs:app."
        raise NotConfigured(msg)
    if (here := str(os.getcwd())) not in sys.path:  # noqa: PTH109
        sys.path.insert(0, here)
    module = _import(module_name, path)
    if not hasattr(module, attribute):
        msg = f"The module {module_name!r} has no {attribute!r}: -A must name a Windlass app in it."
        raise NotConfigured(msg)
    found = getattr(module, attribute)
    if not isinstance(found, Windlass):
        msg = f"{path} is a {type(found).__name__}, not a Windlass app."
        raise NotConfigured(msg)
    found.handlers.source = path
    return found


def _import(module_name: str, path: str) -> ModuleType:
    """The module; whatever it raises is its author's to put right, and told with the place it comes from."""
    try:
        return import_module(module_name)
    except ModuleNotFoundError as problem:
        msg = f"The module {problem.name!r} cannot be found (looking for -A {path}). Run this where it can be imported."
        raise NotConfigured(msg) from problem
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        where = "" if isinstance(problem, SyntaxError) else f" ({place.filename}, line {place.lineno})"
        msg = f"The module {module_name!r} of -A {path} cannot be imported: {type(problem).__name__}: {problem}{where}."
        raise NotConfigured(msg) from problem


@asynccontextmanager
async def working(plan: WorkerPlan) -> AsyncGenerator[Worker]:
    """A worker that runs while the context is open, and stops gracefully at its end."""
    database = await Database.open(plan.database_url, size=_POOL, pinned=True)
    try:
        await migrate.require_current(database)
        await engine.registry.sync(database, plan.app.name, plan.app.definitions, complete=True)
        gone = await engine.registry.gone(database, plan.app.name, plan.app.definitions)
        await make_partitions(database)
        queues = list(plan.queues) or await _queues_of(database, plan.app)
        handled = [d.key for d in plan.app.definitions if d.kind != "host"]
        transport = PostgresTransport(database, queues, handled, lease_seconds=plan.lease_seconds, follow=not plan.queues)
        listener = _listener(plan, database)
        options = WorkerOptions(plan.concurrency, plan.grace, _POLL if listener else _POLL_UNHEARD, plan.lease_seconds)
        info = _info(plan, queues, handled)
        worker = Worker(transport, plan.app.handlers, info, options)
        chores = Chores(database, plan.lease_seconds, source=plan.app.name, gone=gone)
        hear = _Hearing(worker, transport, chores, f"cancel:{info.id}")
        if listener:
            listener.hear = hear
            await listener.start()
        chores.start()
        running = asyncio.create_task(worker.run(), name="windlass-worker")
        running.add_done_callback(lambda _: worker.ended.set())  # whatever ended it is raised below
        try:
            await _up(running, worker)
            yield worker
        finally:
            worker.stop()
            try:
                await running
            finally:
                await chores.stop()
                if listener:
                    await listener.stop()
    finally:
        await database.close()


async def run_worker(plan: WorkerPlan, *, ready: Callable[[], None] = lambda: None, stopping: asyncio.Event | None = None) -> int:
    """Work until SIGTERM, SIGINT, or `stopping` is set; answers the exit status. `ready` is called once it works."""
    _hear_logging()
    told = stopping or asyncio.Event()
    with ExitStack() as hearing:  # until the worker has left
        async with working(plan) as worker:
            hearing.enter_context(_told_by_signals(worker, told))
            ready()
            ended = asyncio.create_task(worker.ended.wait())
            await asyncio.wait([ended, asyncio.create_task(told.wait())], return_when="FIRST_COMPLETED")
            _log.info("stopping: what runs may finish; a second signal hurries, a third kills", grace=plan.grace)
    return 1 if worker.fenced else 0


def _hear_logging() -> None:
    """Unless the app has set up logging itself, a job's log begins at INFO."""
    root = logging.getLogger()
    if not root.handlers and root.level == logging.WARNING:
        root.setLevel(logging.INFO)
    root.addHandler(JobLogHandler())


def runner() -> asyncio.Runner:
    """What to run a worker with. It is not to be closed, for that waits for all tasks, and a thread that takes no
    notice of being stopped would hold it: `leave_at_once` comes after it.
    """
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


class _Hearing:
    """Hands each notification to whom it concerns."""

    def __init__(self, worker: Worker, transport: PostgresTransport, chores: Chores, cancel: str) -> None:
        self._worker, self._transport, self._chores, self._cancel = worker, transport, chores, cancel

    def __call__(self, payload: str) -> None:
        self._transport.hear(payload)
        self._chores.hear(payload)
        if payload in {self._cancel, MISSED}:
            self._worker.poke()
        if payload == MISSED:
            self._worker.rouse()


@contextmanager
def _told_by_signals(worker: Worker, told: asyncio.Event) -> Generator[None]:
    """The first SIGTERM or SIGINT stops gracefully, the second hurries, the third ends the process at once. The
    handler is Python's own and not the loop's, so that it is heard although a job blocks the loop.
    """
    loop, count = asyncio.get_running_loop(), 0

    def hear(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count == _ENOUGH:
            os._exit(1)
        loop.call_soon_threadsafe(told.set if count == 1 else worker.stop)

    before = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _up(running: "asyncio.Task[None]", worker: Worker) -> None:
    """Wait until the worker has joined, or raise what kept it from it."""
    joined = asyncio.create_task(worker.joined.wait())
    await asyncio.wait([running, joined], return_when="FIRST_COMPLETED")
    joined.cancel()
    if running.done():
        await running


def _listener(plan: WorkerPlan, database: Database) -> Listener | None:
    """Behind a pooler nobody can listen: then a direct URL is needed, or polling has to do."""
    if plan.listen_url is None and database.pooled:
        _log.info("a pooler stands before the database: polling; set WINDLASS_LISTEN_URL to a direct one to be woken")
        return None
    return Listener(plan.listen_url or plan.database_url, "windlass")


async def _queues_of(database: Database, app: Windlass) -> list[str]:
    """The queues that the app's definitions go to now, overrides included."""
    found = await engine.registry.effective(database)
    return sorted({found[d.key].queue for d in app.definitions if d.key in found} | {"default"})


def _info(plan: WorkerPlan, queues: Sequence[str], handled: Sequence[str]) -> WorkerInfo:
    boot = uuid4()
    host = socket.gethostname()
    name = plan.name or f"{host}-{os.getpid()}-{boot.hex[:6]}"
    return WorkerInfo(
        boot,
        name,
        host,
        os.getpid(),
        windlass.__version__,
        tuple(queues),
        tuple(handled),
        plan.concurrency,
        birth_of(os.getpid()),
    )


def leave_at_once(status: int) -> None:
    """End the process although a thread still runs a job: that job was given back."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
