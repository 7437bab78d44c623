"""A process with everything that came from it: started together, found together, ended together.

The root gets a session of its own and a mark in its environment, both of which its descendants inherit. A look at the
process table takes in whoever is of that session, carries the mark, has an ancestor among them, or was among them at
an earlier look. So a descendant is found although it ignores SIGTERM, called setsid, or lost its parent.

What cannot be found: a process that did all three of leaving the session, losing its parent and clearing or
overwriting its environment (as some servers do, to show a title) before the first look. What cannot be ended: a
process that became another user's (setuid); it is logged. Without /proc (macOS) there is neither mark nor session, so
a descendant that left the group and lost its parent between two looks gets away. A zombie counts as ended: it runs no
more, and reaping it is its parent's affair.
"""

import asyncio
import logging
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

T = TypeVar("T")

MARK = "WINDLASS_RUN"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.2
_HAS_PROC = Path("/proc/self/stat").exists()
_CAN_LOOK = hasattr(os, "waitid")  # at an exit code without reaping
_POLITE = (signal.SIGTERM, signal.SIGCONT)  # a stopped process takes in a SIGTERM only once it goes on
_LOOKER = ThreadPoolExecutor(1, "windlass-tree")  # a look takes milliseconds, tens of them on a crowded machine
_log = logging.getLogger(__name__)


class Process(NamedTuple):
    """A line of the process table. A pid is given to others later; together with the start it is nobody else's."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    ended: bool

    @property
    def identity(self) -> tuple[int, int]:
        """What names it for ever."""
        return self.pid, self.started


class Tree:
    """A started process and its descendants."""

    def __init__(self, process: subprocess.Popen[bytes], token: str) -> None:
        self.process = process
        self._token = token.encode()
        self._root = _entry(process.pid)
        self._known = {self._root.identity}
        self._untouchable: set[int] = set()

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str | None = None,
        stdout: int | None = subprocess.PIPE,
        keep: Sequence[int] = (),
    ) -> Self:
        """Start a program with nothing to read, its errors in a pipe, and of this process's files only those to keep.

        Nothing is awaited, so nobody can be cancelled between the start and the moment the tree is held.
        """
        token = secrets.token_hex(16)
        marks = ":".join(filter(None, (os.environ.get(MARK), token)))  # a run may be inside another run
        process = subprocess.Popen(  # noqa: S603 - the argv comes from an allow-list, and there is no shell
            argv,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**env, MARK: marks},
            cwd=cwd,
            start_new_session=True,
            close_fds=True,
            pass_fds=keep,
        )
        return cls(process, token)

    def exit_code(self) -> int | None:
        """The root's, once it has ended: negative for the signal that killed it.

        The root is left a zombie until all are ended. As long as it is one, its pid, which is also the number of its
        session and its group, is given to nobody else.
        """
        if self.process.returncode is not None or not _CAN_LOOK:
            return self.process.poll()
        try:
            found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # somebody has waited for any child there is
            return self.process.poll()
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    async def exited(self) -> None:
        """Wait until the root has ended."""
        with suppress(OSError, AttributeError):  # no such call: another system than Linux, or an old one
            watch = os.pidfd_open(self.process.pid)
            try:
                await until_readable(watch)
            finally:
                os.close(watch)
        while self.exit_code() is None:  # noqa: ASYNC110 - nothing would set an Event
            await asyncio.sleep(0.02)

    def living(self) -> list[Process]:
        """Take a look: the processes of this tree that still run."""
        table = _table()
        ours = {process.pid for process in table.values() if self._is_known(process, table)}
        _add_descendants(ours, table)
        ours.update(process.pid for process in table.values() if process.pid not in ours and self._is_marked(process))
        _add_descendants(ours, table)
        found = [table[pid] for pid in ours]
        self._known.update(process.identity for process in found)
        self._reap(process.pid for process in found if process.ended and process.parent == os.getpid())
        return [process for process in found if not process.ended and process.group not in self._untouchable]

    async def end(self, grace: float) -> None:
        """SIGTERM to all, SIGKILL to who is left after the grace; return when none is.

        Being cancelled does not stop it; it is only passed on in the end.
        """
        ending = _Ending(self, grace)
        while not ending.over:
            await ending.step()
        self.process.poll()
        if ending.interrupted:
            raise asyncio.CancelledError

    def send(self, groups: Iterable[int], *numbers: signal.Signals) -> None:
        """Send to whole groups, so that who forks meanwhile cannot slip through. Only descendants can be in them."""
        for group in groups:
            assert group > 1  # else it would be this process's own, or everybody's
            try:
                for number in numbers:
                    os.killpg(group, number)
            except ProcessLookupError:
                continue
            except PermissionError:
                self._untouchable.add(group)
                _log.warning("Process group %d is another user's now and cannot be ended.", group)

    def _is_known(self, process: Process, table: Mapping[int, Process]) -> bool:
        """Whether it was among them before, or is of the root's session while that number is nobody else's."""
        if process.identity in self._known:
            return True
        root = table.get(self._root.pid, None if _CAN_LOOK else self._root)
        same = self._root.pid in (process.session, process.group)
        return same and root is not None and root.identity == self._root.identity

    def _reap(self, orphans: Iterable[int]) -> None:
        """Where this process is the first one (a container without an init), it inherits orphans."""
        for pid in orphans:
            if pid != self._root.pid:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _is_marked(self, process: Process) -> bool:
        if not _HAS_PROC or process.started < self._root.started or process.ended:
            return False
        with suppress(OSError):
            return self._token in Path(f"/proc/{process.pid}/environ").read_bytes()
        return False


class _Ending:
    """The steps that end a tree. None is broken off, however often the task is cancelled: it is only noted."""

    def __init__(self, tree: Tree, grace: float) -> None:
        self._tree = tree
        self._kill_at = time.monotonic() + grace
        self._told: set[int] = set()
        self._pause = _FIRST_PAUSE
        self._found = self._clear = False
        self.over = self.interrupted = False

    async def step(self) -> None:
        """Look, send signals, wait a little. Two looks must find nobody: one could meet a process in mid-exec."""
        loop = asyncio.get_running_loop()
        living = await self._wait(loop.run_in_executor(_LOOKER, self._tree.living))
        self.over = not living and (self._clear or not self._found)
        self._clear, self._found = not living, self._found or bool(living)
        if self.over:
            return
        self._press({process.group for process in living})
        rested: asyncio.Future[None] = loop.create_future()
        loop.call_later(min(self._pause, max(self._kill_at - time.monotonic(), _FIRST_PAUSE)), _wake, rested)
        await self._wait(rested)
        self._pause = min(self._pause * 1.5, _LONGEST_PAUSE)

    async def _wait(self, future: asyncio.Future[T]) -> T:
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError:
                self.interrupted = True
        return future.result()

    def _press(self, groups: set[int]) -> None:
        if time.monotonic() >= self._kill_at:
            self._tree.send(groups, signal.SIGKILL)
            return
        self._tree.send(groups - self._told, *_POLITE)
        self._told |= groups


async def until_readable(descriptor: int) -> None:
    """Wait until there is something to read, or its end."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def _add_descendants(ours: set[int], table: Mapping[int, Process]) -> None:
    """Add the children of those who are in, until nobody new comes in."""
    before = -1
    while len(ours) != before:
        before = len(ours)
        ours.update(process.pid for process in table.values() if process.parent in ours)


def _table() -> dict[int, Process]:
    processes = _from_proc() if _HAS_PROC else _from_ps()
    return {process.pid: process for process in processes}


def _entry(pid: int) -> Process:
    """One process that has not been reaped, so that it is in the table, be it as a zombie."""
    return _parse_stat(pid, Path(f"/proc/{pid}/stat").read_bytes()) if _HAS_PROC else _table()[pid]


def _from_proc() -> Iterable[Process]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path per process would double the cost
        if not name.isdecimal():
            continue
        with suppress(OSError):  # it ended meanwhile
            yield _parse_stat(int(name), Path(f"/proc/{name}/stat").read_bytes())


def _parse_stat(pid: int, stat: bytes) -> Process:
    """See proc(5). The name in parentheses may hold anything, so count from behind it.

    A process is over with its last thread; the first one may be a zombie long before.
    """
    fields = stat.rpartition(b")")[2].split()
    ended = fields[0] in b"ZX" and int(fields[17]) <= 1
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), ended)


def _from_ps() -> Iterable[Process]:
    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,lstart="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})  # noqa: S603
    for line in listing.stdout.splitlines():
        pid, parent, group, state, started = line.split(None, 4)
        moment = int(time.mktime(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y")))
        yield Process(int(pid), int(parent), int(group), 0, moment, state.startswith("Z"))
