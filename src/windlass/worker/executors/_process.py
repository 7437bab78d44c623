"""Runs jobs in child processes, one job at a time each; a child's death is only its own job's.

A child is a fresh interpreter that imports the app and stays for the next job. Worker and child talk over a socket in
frames: four bytes of length, then JSON. The child says what the job says (`logged`, `progressed`, `spent`), asks to
`enqueue`, and ends each run with an `answer`; all of it carries the number of the run, so that a thread that outlives
its job cannot speak for the next one. `_child` is the other end.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from windlass.model import Cancel, ClaimedJob, Done, Fail, NewJob, Outcome, Retry, Snooze
from windlass.model.errors import NotConfigured, UsageError, WindlassError
from windlass.model.storable import clean_text
from windlass.worker.context import Logged, Progressed, Said, Spent, Wire
from windlass.worker.executors._command import DRAIN_SECONDS, LEFTOVER_SECONDS, Tail, chunks
from windlass.worker.executors._tree import Tree

Message = dict[str, Any]

_CHILD = "windlass.worker.executors._child"
_LENGTH = 4
_MAX_FRAME = 64 << 20
_STDERR_KEPT = 2048
_GULP = 64 * 1024


class ChildDied(WindlassError):
    """The process that ran a job is gone: its `exit_code` and the end of its stderr.

    The code is negative for a signal, and None if the process still ran but had broken its connection.
    """

    def __init__(self, exit_code: int | None, stderr: str) -> None:
        self.exit_code, self.stderr = exit_code, stderr
        super().__init__(f"The job's process {_manner(exit_code)}." + (f" Its last words:\n{stderr}" if stderr else ""))


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised: the error in one line, and its traceback."""

    error: str


class ProcessPool:
    """Up to `size` children that import `source`, a `module:attribute`; none is started before it is needed."""

    def __init__(self, source: str, size: int, *, grace: float = 5.0) -> None:
        self._source = source
        self._grace = grace
        self._slots = asyncio.Semaphore(size)
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()
        self._burials: set[asyncio.Future[None]] = set()
        self._closed = False

    async def run(
        self, handler_key: str, job: ClaimedJob, key: str, payload: str, begin: Callable[[], datetime | None], wire: Wire
    ) -> Outcome | object:
        """Run the job in a child: its outcome, its bare result, or Raised. Raises ChildDied.

        `begin` is called when there is a child for it, and answers the deadline. Cancelling ends the child with all it
        started, and is passed on when they are dead.
        """
        request: Message = {"handler": handler_key, "job": job[:-1], "key": key, "payload": payload}
        async with self._slots:
            child = await self._take()
            request["deadline"] = begin()
            try:
                answer = await child.run(request, job, wire)
            except BaseException as problem:
                await self._drop(child, LEFTOVER_SECONDS if isinstance(problem, ChildDied) else self._grace)
                raise
            self._idle.append(child)
            if child.exited.done():
                self._gone(child)
            return answer

    async def close(self) -> None:
        """End all children, also those that still run a job."""
        self._closed = True
        self._idle.clear()
        await asyncio.gather(*(self._drop(child, self._grace) for child in self._children), *self._burials)

    async def _take(self) -> "_Child":
        if self._closed or not self._source:
            reason = "The worker is stopping" if self._closed else "No app to import is known: start with -A module:app"
            msg = f"{reason}, so the job cannot run in a process."
            raise NotConfigured(msg)
        while self._idle:
            child = self._idle.pop()
            if child.lives:
                return child
            await self._drop(child, LEFTOVER_SECONDS)
        child = _Child(self._source)
        self._children.add(child)
        child.exited.add_done_callback(lambda _: self._gone(child))
        return child

    def _gone(self, child: "_Child") -> None:
        """One that died idle is dropped at once: nobody else will see what it left, and its pid is not kept for long."""
        if child in self._idle and not child.exited.cancelled():
            self._idle.remove(child)
            burial = asyncio.ensure_future(self._drop(child, LEFTOVER_SECONDS))
            self._burials.add(burial)
            burial.add_done_callback(self._burials.discard)

    async def _drop(self, child: "_Child", grace: float) -> None:
        try:
            await child.end(grace)
        finally:
            self._children.discard(child)


class _Child:
    """The worker's side of one child."""

    def __init__(self, source: str) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(0)
        with theirs:
            argv = [sys.executable, "-X", "faulthandler", "-m", _CHILD, source, str(theirs.fileno())]
            self._tree = Tree.start(argv, os.environ, stdout=None, keep=(theirs.fileno(),))
        self._tail = Tail(_STDERR_KEPT)
        self._turn = asyncio.Lock()
        self._number = 0
        self._job: ClaimedJob | None = None
        self._wire: Wire | None = None
        self._answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.exited = self._begin(self._tree.exited())
        self._listening = self._begin(self._listen())
        self._hearing = self._begin(self._hear_stderr())

    @property
    def lives(self) -> bool:
        """Whether it can take a job."""
        return not self.exited.done() and not self._listening.done() and self._tree.exit_code() is None

    async def run(self, request: Message, job: ClaimedJob, wire: Wire) -> object:
        """Have it run a job."""
        self._number += 1
        self._job, self._wire = job, wire
        self._answer = asyncio.get_running_loop().create_future()
        self._begin(self._send({"kind": "run", "run": self._number, **request}))
        await asyncio.wait({self._answer, self.exited, self._listening}, return_when=asyncio.FIRST_COMPLETED)
        if not self._answer.done():
            await self._bury()
        self._job = self._wire = None
        return self._answer.result()

    async def end(self, grace: float) -> None:
        """End it and all it started, hearing what it still says."""
        try:
            await self._tree.end(grace)
            await asyncio.wait({self._listening, self._hearing}, timeout=DRAIN_SECONDS)
        finally:
            self._forget()

    def _forget(self) -> None:
        for task in self._tasks:
            task.cancel()
        # Closed when no task watches it any more: the number may be another file's at once.
        ended = asyncio.gather(*self._tasks, return_exceptions=True)
        ended.add_done_callback(lambda _: self._close())

    def _close(self) -> None:
        self._socket.close()
        if self._tree.process.stderr is not None:
            self._tree.process.stderr.close()

    async def _bury(self) -> None:
        """Take in what a dead child has left; an answer may be among it."""
        await asyncio.wait({self.exited, self._listening, self._hearing}, timeout=DRAIN_SECONDS)
        if not self._answer.done():
            self._answer.set_exception(ChildDied(self._tree.exit_code(), self._tail.text().strip()))

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # told by the child's death, which follows

    async def _send(self, message: Message) -> None:
        async with self._turn:
            with suppress(OSError):  # it died; whoever waits for it is told so
                await asyncio.get_running_loop().sock_sendall(self._socket, pack(message))

    async def _listen(self) -> None:
        """Take in frames until the child is gone, or says what is none."""
        loop, buffer = asyncio.get_running_loop(), bytearray()
        with suppress(ConnectionError):
            while chunk := await loop.sock_recv(self._socket, _GULP):
                buffer += chunk
                for message in unpack(buffer):
                    self._hear(message)
                await asyncio.sleep(0)

    async def _hear_stderr(self) -> None:
        pipe = self._tree.process.stderr
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        async for chunk in chunks(pipe.fileno(), lambda: _GULP):
            self._tail.add(chunk)
            _pass_on(chunk)

    def _hear(self, message: Message) -> None:
        if self._job is None or self._wire is None or message["run"] != self._number:
            return
        match message["kind"]:
            case "answer":
                if not self._answer.done():
                    self._answer.set_result(answer_from(message["answer"]))
            case "enqueue":
                self._begin(self._enqueue(self._job, self._wire, message))
            case _:
                self._wire.say(self._job, _said(message))

    async def _enqueue(self, job: ClaimedJob, wire: Wire, message: Message) -> None:
        reply: Message = {"kind": "enqueued", "call": message["call"]}
        try:
            made = await asyncio.wrap_future(wire.enqueue(job, [_new_job(told) for told in message["jobs"]]))
            reply["ids"] = [list(enqueued) for enqueued in made]
        except Exception as problem:
            facts = vars(problem) if isinstance(problem, WindlassError) else {}
            reply["error"] = {"type": type(problem).__name__, "message": clean_text(str(problem)), "facts": facts}
        await self._send(reply)


def pack(message: Message) -> bytes:
    """The message as a frame."""
    body = orjson.dumps(message, default=str)
    if len(body) > _MAX_FRAME:
        msg = f"{len(body):,} bytes are too many to be said at once; enqueue the jobs in smaller lots."
        raise UsageError(msg)
    return len(body).to_bytes(_LENGTH) + body


def unpack(buffer: bytearray) -> Iterator[Message]:
    """Take the whole frames off the buffer's front."""
    while len(buffer) >= _LENGTH:
        end = _LENGTH + int.from_bytes(buffer[:_LENGTH])
        if end > _MAX_FRAME + _LENGTH:
            msg = "That is no frame."
            raise ValueError(msg)
        if len(buffer) < end:
            return
        body = bytes(buffer[_LENGTH:end])
        del buffer[:end]
        yield orjson.loads(body)


def answer_from(told: Message) -> Outcome | Raised | object:
    """The child's answer as the value it stands for."""
    match told["is"]:
        case "done":
            return Done(told["result"])
        case "retry":
            return Retry(told["after"], told["error"])
        case "snooze":
            return Snooze(told["after"])
        case "fail":
            return Fail(told["reason"])
        case "cancel":
            return Cancel(told["reason"])
        case "raised":
            return Raised(told["error"])
        case _:
            return told["result"]


def _said(message: Message) -> Said:
    match message["kind"]:
        case "progressed":
            return Progressed(message["fraction"], message["note"])
        case "spent":
            return Spent(message["cents"])
        case _:
            return Logged(message["level"], message["message"], message["fields"])


def _new_job(told: Message) -> NewJob:
    due_at, parent = told["due_at"], told["parent_id"]
    typed: Message = {
        "due_at": due_at and datetime.fromisoformat(due_at),
        "parent_id": parent and UUID(parent),
        "depends_on": tuple(map(UUID, told["depends_on"])),
    }
    return NewJob(**{**told, **typed})


def _manner(exit_code: int | None) -> str:
    if exit_code is None:
        return "broke its connection to the worker and was ended"
    if exit_code >= 0:
        return f"exited with status {exit_code} before the job had ended"
    name = next((each.name for each in signal.Signals if each == -exit_code), f"signal {-exit_code}")
    hint = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def _pass_on(chunk: bytes) -> None:
    """What a child writes on stderr is to be seen where the worker's own is."""
    with suppress(OSError, ValueError, AttributeError):
        os.write(sys.stderr.fileno(), chunk)
