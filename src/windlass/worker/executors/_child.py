"""The child's end of `_process`: imports the app, then runs one job after the other, in its main thread.

SIGTERM raises SystemExit in the job, so that its `finally` blocks run. A second thread reads from the worker; when
there is nothing to read any more the worker is dead, and so is this process at once, with its process group.
"""

import asyncio
import importlib
import inspect
import itertools
import logging
import operator
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn
from uuid import UUID

import orjson

from windlass.model import Cancel, ClaimedJob, Done, Enqueued, Fail, NewJob, Retry, Snooze, errors
from windlass.model.durations import seconds
from windlass.model.errors import BadPayload, NotStorable, UsageError, WindlassError
from windlass.model.storable import MAX_RESULT_BYTES, clean_text, encode
from windlass.worker._words import LONGEST_LINE, as_json, as_text
from windlass.worker.context import JobContext, Logged, Progressed, Said, Spent, Wire, current_job
from windlass.worker.executors._process import Message, pack, unpack
from windlass.worker.handlers import Handler, Handlers

_TERMINATED = 128 + signal.SIGTERM
_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning"}


class Stop:
    """SIGTERM, as an exception in the main thread: once, and never in the middle of a frame."""

    def __init__(self) -> None:
        self.asked = False
        self._withheld = 0
        self._raised = False

    def __call__(self, *_: object) -> None:
        """Handle the signal."""
        self.asked = True
        if not self._withheld and not self._raised:
            self._raised = True
            raise SystemExit(_TERMINATED)

    @contextmanager
    def withheld(self) -> Generator[None]:
        """Keep it back meanwhile."""
        mine = threading.current_thread() is threading.main_thread()
        self._withheld += mine
        try:
            yield
        finally:
            self._withheld -= mine
            if mine and self.asked:
                self()


class Line:
    """The connection to the worker. Any thread may speak."""

    def __init__(self, connection: socket.socket, stop: Stop) -> None:
        self.requests: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._connection = connection
        self._stop = stop
        self._turn = threading.Lock()
        self._calls = itertools.count()
        self._pending: dict[int, Future[list[Enqueued]]] = {}
        self._mine = True
        # Neither programs nor forks that a job starts may hold it open, or speak.
        connection.set_inheritable(False)
        os.register_at_fork(after_in_child=self._disown)

    def send(self, message: Message) -> None:
        """Say something. When it cannot be said, the worker waits for an answer in vain, or not at all any more."""
        if not self._mine:
            return
        frame = pack(message)
        try:
            with self._stop.withheld(), self._turn:
                self._connection.sendall(frame)
        except OSError:
            _die()

    def wire(self, run: int) -> Wire:
        """What a job speaks through."""
        return Wire(partial(self._say, run), partial(self._enqueue, run), lambda _: self._stop.asked)

    def listen(self) -> NoReturn:
        """Take in what the worker says, until it is gone."""
        buffer = bytearray()
        try:
            while chunk := self._connection.recv(65_536):
                buffer += chunk
                for message in unpack(buffer):
                    self._take(message)
        finally:
            _die()

    def _take(self, message: Message) -> None:
        if message["kind"] == "run":
            self.requests.put(message)
            return
        asked = self._pending.pop(message["call"])
        if "error" in message:
            asked.set_exception(_error_from(message["error"]))
        else:
            asked.set_result([Enqueued(UUID(job_id), known) for job_id, known in message["ids"]])

    def _say(self, run: int, _: ClaimedJob, said: Said) -> None:
        match said:
            case Logged(level, message, fields):
                told = {"kind": "logged", "level": level, "message": as_text(message, LONGEST_LINE), "fields": _fields(fields)}
            case Progressed(fraction, note):
                told = {"kind": "progressed", "fraction": fraction, "note": None if note is None else as_text(note, LONGEST_LINE)}
            case Spent(cents):
                told = {"kind": "spent", "cents": cents}
        self.send({"run": run, **told})

    def _enqueue(self, run: int, _: ClaimedJob, jobs: Sequence[NewJob]) -> "Future[list[Enqueued]]":
        asked: Future[list[Enqueued]] = Future()
        call = next(self._calls)
        self._pending[call] = asked
        self.send({"kind": "enqueue", "run": run, "call": call, "jobs": list(jobs)})
        return asked

    def _disown(self) -> None:
        self._mine = False
        self._connection.close()


class JobLines(logging.Handler):
    """Standard `logging`, from whatever thread, into the log of the job that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.context: JobContext | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over a record; one that cannot be formatted is told on stderr, as `logging` does."""
        level = _LEVELS.get(record.levelno, "error" if record.levelno > logging.WARNING else "info")
        try:
            if self.context is not None:
                self.context.hear_log(Logged(level, self.format(record), {"logger": record.name}))
        except Exception:
            self.handleError(record)


class Runner:
    """Runs what is asked for."""

    def __init__(self, handlers: Handlers, line: Line, stop: Stop, lines: JobLines) -> None:
        self._handlers = handlers
        self._line = line
        self._stop = stop
        self._lines = lines

    def serve(self, request: Message) -> None:
        """Run one job and answer."""
        context = self._context(request)
        self._lines.context = context
        before = current_job.set(context)
        try:
            answer = self._attempt(request, context)
        finally:
            current_job.reset(before)
            self._lines.context = None
        self._line.send({"kind": "answer", "run": request["run"], "answer": answer})

    def _attempt(self, request: Message, context: JobContext) -> Message:
        handler = self._handlers.get(request["handler"])
        if handler is None or handler.function is None:
            msg = f"The app in the job's process has no function for {request['handler']!r}."
            return {"is": "raised", "error": msg}
        try:
            return _answer(_call(handler, handler.function, context, request["payload"]))
        except BaseException as problem:
            if self._stop.asked:
                raise
            return {"is": "raised", "error": _story(problem)}

    def _context(self, request: Message) -> JobContext:
        job_id, lease, tenant_id, definition_id, attempt, most, priority = request["job"]
        owners = UUID(tenant_id), UUID(definition_id)
        job = ClaimedJob(UUID(job_id), lease, *owners, attempt, most, priority, request["payload"])
        return JobContext(job, request["key"], self._line.wire(request["run"]), _monotonic(request["deadline"]))


def main(source: str, descriptor: int) -> NoReturn:
    """Serve until told to stop."""
    stop = Stop()
    signal.signal(signal.SIGTERM, stop)
    line = Line(socket.socket(fileno=descriptor), stop)
    threading.Thread(target=line.listen, name="windlass-line", daemon=True).start()
    handlers, lines = _load(source), JobLines()
    _hear_logging(lines)
    runner = Runner(handlers, line, stop, lines)
    while not stop.asked:  # a job may have swallowed the SystemExit
        runner.serve(line.requests.get())
    sys.exit(_TERMINATED)


def _load(source: str) -> Handlers:
    module, _, attribute = source.partition(":")
    if not attribute:
        sys.exit(f"{source!r} does not say what to import: write module:attribute.")
    sys.path[:0] = [folder for folder in [os.getcwd()] if folder not in sys.path]  # noqa: PTH109 - sys.path holds text
    sys.argv[1:] = []
    handlers = operator.attrgetter(f"{attribute}.handlers")(importlib.import_module(module))
    if not isinstance(handlers, Handlers):
        sys.exit(f"{source!r} is no app: its `handlers` are {type(handlers).__name__}.")
    return handlers


def _hear_logging(lines: JobLines) -> None:
    """Unless the app has set up logging itself, a job's log begins at INFO."""
    root = logging.getLogger()
    if not root.handlers and root.level == logging.WARNING:
        root.setLevel(logging.INFO)
    root.addHandler(lines)


def _call(handler: Handler, function: Callable[..., object], context: JobContext, payload: str) -> object:
    try:
        arguments = handler.decode(payload)
    except BadPayload as problem:
        return Fail(str(problem))  # it will not fit the next time either
    value = function(*([context] if handler.wants_context else []), **arguments)
    return asyncio.run(_await(value)) if inspect.isawaitable(value) else value


def _answer(value: object) -> Message:
    """The outcome as data. What cannot be one has failed for good: the body has run, and would leave the same again."""
    try:
        match value:
            case Done(result):
                return {"is": "done", "result": _json(result)}
            case Retry(after, error):
                wait = None if after is None else seconds(after)
                return {"is": "retry", "after": wait, "error": None if error is None else as_text(error)}
            case Snooze(after):
                return {"is": "snooze", "after": seconds(after)}
            case Fail(reason):
                return {"is": "fail", "reason": as_text(reason)}
            case Cancel(reason):
                return {"is": "cancel", "reason": as_text(reason)}
            case _:
                return {"is": "result", "result": _json(value)}
    except NotStorable as problem:
        reason = f"The job ran, but its result cannot be kept. {problem}"
    except (UsageError, TypeError, ValueError, ArithmeticError) as problem:
        reason = f"The job's outcome makes no sense: {problem}"
    return {"is": "fail", "reason": as_text(reason)}


def _monotonic(moment: str | None) -> float | None:
    """A moment of the worker, whose monotonic clock need not be this process's, on this one's."""
    if moment is None:
        return None
    return time.monotonic() + (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()


def _json(result: object) -> orjson.Fragment:
    return orjson.Fragment(encode(result, what="result", limit=MAX_RESULT_BYTES))


def _fields(fields: dict[str, object]) -> orjson.Fragment:
    return orjson.Fragment(as_json(fields))


def _story(problem: BaseException) -> str:
    """What was raised in one line, then the traceback from the handler on."""
    trace = problem.__traceback__
    for _ in range(2):  # `_attempt` and `_call`
        trace = trace.tb_next if trace else None
    summary = "".join(traceback.format_exception_only(problem)).strip()
    return clean_text(f"{summary}\n\n{''.join(traceback.format_exception(type(problem), problem, trace))}") or ""


def _error_from(told: Message) -> WindlassError:
    """What the worker raised, as far as it can be told: its kind, words and facts."""
    kind = getattr(errors, told["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, WindlassError)):
        return WindlassError(f"{told['type']}: {told['message']}")
    problem = kind.__new__(kind, told["message"])
    vars(problem).update(told["facts"])
    return problem


async def _await(value: Awaitable[Any]) -> object:
    return await value


def _die() -> NoReturn:
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
