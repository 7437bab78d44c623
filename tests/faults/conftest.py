"""Real worker processes to kill, freeze and cut off; a file that tells what they did."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from faults import faultapp
from waiting import eventually

TESTS = Path(__file__).parent.parent


class Process:
    """A worker process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[dict] = []
        self.blurted: list[str] = []
        self._heard = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        return self._process.pid

    async def _read(self) -> None:
        async for line in self._process.stderr:
            try:
                said = json.loads(line)
            except ValueError:
                self.blurted.append(line.decode(errors="replace"))
                continue
            async with self._heard:
                self.said.append(said)
                self._heard.notify_all()

    async def says(self, event: str, within: float = 20) -> dict:
        """Wait until the process has logged this."""
        async with asyncio.timeout(within), self._heard:
            await self._heard.wait_for(lambda: any(event in said.get("event", "") for said in self.said))
        return next(said for said in self.said if event in said.get("event", ""))

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def ends(self, within: float = 20) -> int:
        """Wait until the process has ended; answers its exit status."""
        async with asyncio.timeout(within):
            status = await self._process.wait()
            await self._reader
        return status


@pytest.fixture
async def start(windlass_url):
    """Start a worker process, and wait until it works."""
    started: list[Process] = []

    async def begin(
        name: str = "", *, lease: float = 3.0, concurrency: int = 20, url: str | None = None, wait: bool = True
    ) -> Process:
        env = os.environ | {"PYTHONPATH": str(TESTS)}
        process = Process(await asyncio.create_subprocess_exec(
            sys.executable, str(TESTS / "faults" / "run_worker.py"), url or windlass_url, str(lease), name, str(concurrency),
            env=env, stderr=asyncio.subprocess.PIPE, start_new_session=True, limit=1 << 24,
        ))  # fmt: skip
        started.append(process)
        if wait:
            await process.says("worker started")
        return process

    yield begin
    for process in started:
        process.signal(signal.SIGCONT)
        process.signal(signal.SIGKILL)
        await process.ends()


@pytest.fixture
async def app(windlass_url):
    """The fault app, open in this process."""
    faultapp.app._url = windlass_url
    async with faultapp.app:
        yield faultapp.app


@pytest.fixture
def journal(tmp_path) -> Callable[[], list[list[str]]]:
    """What jobs noted, a list of words for each line."""
    path = tmp_path / "journal"

    def read() -> list[list[str]]:
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    read.path = str(path)
    return read


@pytest.fixture(name="eventually")
def _eventually():
    """Wait until something is so."""
    return eventually
