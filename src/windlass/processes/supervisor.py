"""`windlass worker --processes N`: a parent with N workers, which starts those anew that die.

Between the parent and each child is a pair of sockets, the tether. On it the child says once that it works; and
when its end falls silent the parent is gone, however it went, and the child stops gracefully. Signals reach the
children through the parent alone: they live in sessions of their own, so a Ctrl-C in the terminal counts once.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import structlog

from windlass.lifecycle import Loop, rest_after
from windlass.processes.orphans import Orphans, inherits

_log = structlog.get_logger("windlass.processes.supervisor")
_STEADY_SECONDS, _LONGEST_REST = 60.0, 15.0
_ENOUGH = 3  # signals
_UP = b"."
_ASKED = {0, -signal.SIGTERM}

Command = Callable[[str, int], Sequence[str]]


def tethered(descriptor: int, stopping: asyncio.Event) -> Callable[[], None]:
    """In a child: set `stopping` once the parent is gone; answers what to call when the child works."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - as the function wants it
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(descriptor)
        _log.warning("the supervisor is gone: this worker stops")
        stopping.set()

    def up() -> None:
        with contextlib.suppress(OSError):
            os.write(descriptor, _UP)

    loop.add_reader(descriptor, gone)
    return up


class Supervisor:
    """Keeps `count` children alive until told to stop. `command` makes the argv of a child from its name and the
    descriptor of its tether.
    """

    def __init__(self, command: Command, name: str, count: int) -> None:
        self._command = command
        self._names = [f"{name}-{number}" for number in range(1, count + 1)]
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._any_up = asyncio.Event()
        self._signals = 0
        self._status = 0

    async def run(self) -> int:
        """Run until all children have ended; answers the exit status."""
        orphans = Loop("orphans", Orphans(self._is_child).reap)
        with _heard(self._hear):
            if inherits():
                orphans.start()
            first, *others = self._names
            keepers = [asyncio.create_task(self._keep(first))]
            # What keeps the first from working (a wrong name, no database) would keep all: let it be said once.
            await asyncio.wait([keepers[0], asyncio.create_task(self._any_up.wait())], return_when="FIRST_COMPLETED")
            if self._any_up.is_set() and not self._stopping.is_set():
                keepers += [asyncio.create_task(self._keep(name)) for name in others]
            await asyncio.gather(*keepers)
            await orphans.stop()
        return self._status

    async def _keep(self, name: str) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                ended = await self._live(name)
            except OSError as problem:  # no process, memory or file to be had: passing, and no reason to stop the others
                ended = problem
            if self._stopping.is_set() or not self._any_up.is_set():
                self._end(ended)
                return
            failures = 1 if time.monotonic() - began > _STEADY_SECONDS else failures + 1
            rest = rest_after(failures, _LONGEST_REST)
            _log.error("a worker process died: starting it anew", name=name, ended=_told(ended), next_in=round(rest, 2))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), rest)

    def _end(self, ended: int | OSError) -> None:
        """This child was the last of its name."""
        if isinstance(ended, OSError):
            _log.error("a worker process could not be started", error=str(ended))
        self._status = self._status or int(ended not in _ASKED)

    async def _live(self, name: str) -> int:
        """One child, from its start to its end; answers its exit status."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)  # noqa: FBT003 - as the function wants it
            child = await asyncio.create_subprocess_exec(
                *self._command(name, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
            theirs.close()
            self._children[name] = child
            if self._stopping.is_set():
                child.terminate()  # told to stop while it was being made
            _log.info("worker process started", name=name, pid=child.pid)
            hearing = asyncio.create_task(self._hear_up(ours))
            try:
                return await child.wait()
            finally:
                del self._children[name]
                hearing.cancel()

    def _is_child(self, pid: int, _session: int) -> bool:
        return any(child.pid == pid for child in self._children.values())

    async def _hear_up(self, ours: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if await asyncio.get_running_loop().sock_recv(ours, 1):
                self._any_up.set()

    def _hear(self) -> None:
        """Pass a signal on; whoever does not heed the third is killed."""
        self._signals += 1
        self._stopping.set()
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM if self._signals < _ENOUGH else signal.SIGKILL)


@contextmanager
def _heard(hear: Callable[[], None]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, hear)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _told(status: int | OSError) -> str:
    if isinstance(status, OSError):
        return f"before it began: {status}"
    return f"with exit status {status}" if status >= 0 else f"by signal {-status}"
