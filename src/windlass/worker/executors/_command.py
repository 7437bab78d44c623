"""Runs one allow-listed command: its output line by line, bounded; its end, with everything it started.

Nothing is read ahead: a program that writes faster than its lines are taken waits in its own write. After the quota of
lines only the tails go on, so a flood costs neither memory nor the loop's time.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from windlass.model.errors import WindlassError
from windlass.worker.executors._tree import Tree, until_readable

OnLine = Callable[[str, str], None]
OnEnd = Callable[["CommandResult"], None]

MAX_LINE = 8 * 1024
MAX_TAIL = 16 * 1024
MAX_LINES, MAX_BYTES = 20_000, 4 * 1024 * 1024
LINE_CUT = "… [line cut]"
OUTPUT_TRUNCATED = "… [output truncated]"
DRAIN_SECONDS = 0.5  # for what is still in a pipe when the program has ended
LEFTOVER_SECONDS = 0.5  # for what it left running to end by itself

_MOUTHFUL = 4 * 1024  # as short lines that is 2 ms of work; the loop turns in between
_GULP = 64 * 1024
_PASSED_ON = ("PATH", "HOME", "LANG", "TZ")
_DEFAULTS = {"PATH": os.defpath, "LANG": "C.UTF-8"}
_CONTINUATION = range(0x80, 0xC0)  # bytes of UTF-8 that no character begins with


class CommandNotStarted(WindlassError):
    """The program could not be started at all."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `env` is all the program gets, besides PATH, HOME, LANG, TZ and a mark to find it by."""

    argv: list[str]
    env: Mapping[str, str]
    grace: float = 5.0
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How it ended. The exit code is negative for the signal that killed it, as in `subprocess`."""

    exit_code: int | None
    stdout_tail: str
    stderr_tail: str


async def run_command(command: Command, on_line: OnLine, on_end: OnEnd = lambda _: None) -> CommandResult:
    """Run it to its end. When this returns or raises, nothing of it runs any more and `on_line` is not called again.

    Cancelling sends SIGTERM to all it started, SIGKILL after the grace, and is passed on when all are dead. What
    outlives the program itself is ended too. `on_end` hears how it ended also when it was made to.
    """
    tree = _start(command)
    quota = _Quota(on_line)
    stdout, stderr = Lines("stdout", quota.take), Lines("stderr", quota.take)
    pumps = [_pump(tree.process.stdout, stdout), _pump(tree.process.stderr, stderr)]
    grace = command.grace
    try:
        await _until_exit(tree, pumps)
        await asyncio.wait(pumps, timeout=DRAIN_SECONDS)
        grace = min(grace, LEFTOVER_SECONDS)
    finally:
        try:
            await _finish(tree, grace, pumps)
        finally:
            result = CommandResult(tree.exit_code(), stdout.tail.text(), stderr.tail.text())
            on_end(result)
    for pump in pumps:
        if pump.done():
            pump.result()
    return result


async def chunks(descriptor: int, size: Callable[[], int]) -> AsyncIterator[bytes]:
    """What comes out of a non-blocking pipe, at most so much at once; others get their turn after each chunk."""
    while True:
        try:
            chunk = os.read(descriptor, size())
        except BlockingIOError:
            await until_readable(descriptor)
            continue
        if not chunk:
            return
        yield chunk
        await asyncio.sleep(0)


class Tail:
    """The last bytes of a stream, as text."""

    def __init__(self, limit: int = MAX_TAIL) -> None:
        self._limit = limit
        self._bytes = b""
        self._cut = False

    def add(self, chunk: bytes) -> None:
        """Take in what came next."""
        self._cut = self._cut or len(self._bytes) + len(chunk) > self._limit
        self._bytes = (self._bytes + chunk[-self._limit :])[-self._limit :]

    def text(self) -> str:
        """What is kept, beginning with a whole character."""
        kept = self._bytes
        while self._cut and kept and kept[0] in _CONTINUATION:
            kept = kept[1:]
        return _decode(kept)


class Lines:
    """One stream, cut into lines that are handed over as they end, and its tail."""

    def __init__(self, stream: str, take: Callable[[str, bytes, str], bool]) -> None:
        self._stream = stream
        self._take = take
        self._open = bytearray()
        self._skipping = False  # the rest of a line that was cut
        self._deaf = False  # the quota is spent
        self.tail = Tail()

    def appetite(self) -> int:
        """How much to read next: little while there are lines to make of it."""
        return _GULP if self._skipping or self._deaf else _MOUTHFUL

    def feed(self, data: bytes) -> bytes:
        """Take in a mouthful; what is left of the data."""
        if self._deaf:
            return b""
        if self._skipping:
            _, newline, data = data.partition(b"\n")
            self._skipping = not newline
        self._split(data[:_MOUTHFUL])
        return data[_MOUTHFUL:]

    def end(self) -> None:
        """The last line, if no newline ended it."""
        if self._open:
            self._hand_over()

    def _split(self, data: bytes) -> None:
        first, *others = data.split(b"\n")
        self._open += first
        for other in others:
            self._hand_over()
            self._open = bytearray(other)
        if len(self._open) > MAX_LINE:
            self._hand_over()
            self._skipping = True

    def _hand_over(self) -> None:
        line, self._open = bytes(self._open), bytearray()
        mark = LINE_CUT if len(line) > MAX_LINE else ""
        self._deaf = self._deaf or not self._take(self._stream, _cut(line.removesuffix(b"\r")), mark)


class _Quota:
    """How many lines a run may hand over, from both streams together."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._lines, self._bytes = MAX_LINES, MAX_BYTES
        self._spent = False

    def take(self, stream: str, line: bytes, mark: str) -> bool:
        """Hand it over, or say once that there will be no more; whether there may be."""
        self._lines -= 1
        self._bytes -= len(line)
        if self._lines >= 0 and self._bytes >= 0 and not self._spent:
            self._on_line(stream, _decode(line) + mark)
        elif not self._spent:
            self._spent = True
            self._on_line(stream, OUTPUT_TRUNCATED)
        return not self._spent


def _start(command: Command) -> Tree:
    own = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        return Tree.start(command.argv, {**_DEFAULTS, **own, **command.env}, cwd=command.cwd)
    except (OSError, ValueError, IndexError) as problem:
        raise CommandNotStarted(_advice(command, problem)) from problem


def _advice(command: Command, problem: Exception) -> str:
    program = command.argv[0] if command.argv else ""
    if command.cwd is not None and not Path(command.cwd).is_dir():
        return f"{program!r} was not started: its folder {command.cwd!r} does not exist. Make it, or name another."
    match problem:
        case FileNotFoundError():
            todo = "Install it on this machine, or write its full path into the definition's argv"
            return f"{program!r} was not found in the command's PATH, or what its first line (#!) names. {todo}."
        case PermissionError():
            return f"{program!r} may not be executed by the worker's user. Check the path, its owner and `chmod +x`."
        case _:
            return f"{program!r} could not be started: {problem}. Check the definition's argv and env, and the machine."


def _pump(pipe: IO[bytes] | None, lines: Lines) -> asyncio.Task[None]:
    assert pipe is not None  # it was asked for
    os.set_blocking(pipe.fileno(), False)
    pump = asyncio.ensure_future(_drink(pipe.fileno(), lines))
    # Closed when nobody watches it any more, even if the task never came to run.
    pump.add_done_callback(lambda _: pipe.close())
    return pump


async def _drink(descriptor: int, lines: Lines) -> None:
    async for chunk in chunks(descriptor, lines.appetite):
        lines.tail.add(chunk)
        rest = lines.feed(chunk)
        while rest:
            await asyncio.sleep(0)
            rest = lines.feed(rest)
    lines.end()


async def _until_exit(tree: Tree, pumps: list[asyncio.Task[None]]) -> None:
    """Wait for the program's end, or raise what `on_line` raised."""
    exited = asyncio.ensure_future(tree.exited())
    waiting = {exited, *pumps}
    try:
        while not exited.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
    finally:
        exited.cancel()


async def _finish(tree: Tree, grace: float, pumps: list[asyncio.Task[None]]) -> None:
    """End what still runs, hearing its last words; then close the pipes, whoever else holds them."""
    try:
        await tree.end(grace)
        await asyncio.wait(pumps, timeout=DRAIN_SECONDS)
    finally:
        for pump in pumps:
            pump.cancel()


def _cut(line: bytes) -> bytes:
    """At most so many bytes of it, and no half of a character at the cut."""
    end = MAX_LINE
    while len(line) > MAX_LINE and end > MAX_LINE - 4 and line[end] in _CONTINUATION:
        end -= 1
    return line[:end]


def _decode(text: bytes) -> str:
    return text.decode(errors="replace").replace("\x00", "\ufffd")
