"""Worker processes under measurement: started, known to be idle, their cost read, ended by their own ids."""

import asyncio
import contextlib
import os
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from windlass.bench._result import MeasureError
from windlass.db import Database, statement

_IDLE = statement(__file__, "idle")
_START_SECONDS, _STOP_SECONDS = 30.0, 5.0
_LOOK_EVERY = 0.01
_PROC = Path("/proc")


class Workers:
    """Some worker processes on one database."""

    def __init__(self, database: Database, processes: list[Process], words: BinaryIO) -> None:
        self._database, self._processes, self._words = database, processes, words

    async def idle(self) -> None:
        """Wait until each has joined, found nothing to do, and asked to be woken."""
        async with asyncio.timeout(_START_SECONDS):
            while await self._database.value(_IDLE) < len(self._processes):
                self.require_alive()
                await asyncio.sleep(_LOOK_EVERY)

    def require_alive(self) -> None:
        """Raise with its last words if one has died."""
        for process in self._processes:
            if process.returncode is not None:
                self._words.seek(0)
                told = self._words.read().decode(errors="replace").strip()[-2000:]
                msg = f"A worker process ended with exit code {process.returncode} while it was measured.\n{told}"
                raise MeasureError(msg)

    def cpu_seconds(self) -> float | None:
        """Processor time of all of them since they started, where the system tells."""
        spent = [_cpu_seconds(process.pid) for process in self._processes]
        return None if None in spent else sum(one for one in spent if one is not None)

    def resident_bytes(self) -> int | None:
        """Memory of the largest, where the system tells."""
        return max((_resident_bytes(process.pid) or 0 for process in self._processes), default=0) or None


@asynccontextmanager
async def workers_on(database: Database, count: int, concurrency: int = 100) -> AsyncGenerator[Workers]:
    """So many worker processes, idle when the context opens, gone when it closes."""
    async with AsyncExitStack() as stack:
        words = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack is its context manager
        processes = [await stack.enter_async_context(_process(database.url, concurrency, words)) for _ in range(count)]
        workers = Workers(database, processes, words)
        await workers.idle()
        yield workers


@asynccontextmanager
async def _process(url: str, concurrency: int, words: BinaryIO) -> AsyncGenerator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "windlass.bench._worker_process", url, str(concurrency),
        stdin=PIPE, stdout=DEVNULL, stderr=words, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _cpu_seconds(pid: int) -> float | None:
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int | None:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
