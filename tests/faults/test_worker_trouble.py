"""Workers in trouble: a blocked loop beside a worker that would take over, commands that do not want to end."""

import asyncio
import os
import signal
import sys
import time
from uuid import uuid4

import pytest

from faults import troubleapp
from faults.conftest import TESTS, Process
from faults.proxy import Proxy
from faults.troubleapp import polite, processes_with, rude, stubborn, stubborn_in_time
from windlass import engine
from windlass.model import JobState
from windlass.model.errors import JobFailed
from windlass.processes.worker import WorkerPlan, working

LEASE = 1.5


@pytest.fixture
async def app(windlass_url):
    """The app of trouble, open in this process."""
    troubleapp.app._url = windlass_url
    async with troubleapp.app:
        yield troubleapp.app


@pytest.fixture
async def start(windlass_url):
    """Start a worker process of that app, and wait until it works."""
    started: list[Process] = []

    async def begin(*, lease: float = LEASE, grace: float = 5, url: str = windlass_url) -> Process:
        process = Process(await asyncio.create_subprocess_exec(
            sys.executable, "-m", "faults.troubleapp", url, str(lease), str(grace), env=os.environ | {"PYTHONPATH": str(TESTS)},
            stderr=asyncio.subprocess.PIPE, start_new_session=True, limit=1 << 24,
        ))  # fmt: skip
        started.append(process)
        await process.says("worker started")
        return process

    yield begin
    for process in started:
        process.signal(signal.SIGKILL)
        await process.ends()


@pytest.fixture
def mark():
    """A word that only this test's processes have among their arguments; afterwards nobody has."""
    word = f"mark-{uuid4().hex}"
    yield word
    for pid in processes_with(word):
        os.kill(pid, signal.SIGKILL)


async def test_a_blocked_loop_keeps_its_leases_although_another_worker_would_take_over(app, start, journal, eventually):
    """F-42: five leases of pure computation on the event loop; the other worker lives, and runs what else there is."""
    first, second = await start(), await start()
    handle = await rude.enqueue(journal.path, LEASE * 5)
    await eventually(lambda: len(journal()) == 1)
    blocked = int(journal()[0][2])
    others = [await polite.enqueue(journal.path) for _ in range(3)]
    for other in others:
        await other.result(20)
    await handle.result(30)
    ran = journal()
    assert [line[1] for line in ran if line[0] == "rude"] == ["1"]
    assert {int(line[1]) for line in ran if line[0] == "polite"} == {first.pid, second.pid} - {blocked}
    assert [attempt.status for attempt in await app.jobs.attempts(handle.id)] == ["succeeded"]


@pytest.mark.parametrize("why", ["cancel", "timeout"])
async def test_a_command_that_ignores_sigterm_is_ended_before_its_job_is(app, mark, tmp_path, eventually, why):
    """F-20: cancelled or out of time, it leaves no survivor, and its exit code and tails are kept."""
    async with working(WorkerPlan(app, app.url)) as worker:
        worker._executors._grace = 0.3
        job = stubborn if why == "cancel" else stubborn_in_time
        handle = await job.enqueue(mark=mark, begun=str(tmp_path / "begun"))
        await eventually((tmp_path / "begun").exists)
        assert len(processes_with(mark)) >= 3
        if why == "cancel":
            assert await handle.cancel("enough") is JobState.RUNNING
        with pytest.raises(JobFailed):
            await handle.result(20)
        assert processes_with(mark) == []
        (tried,) = await app.jobs.attempts(handle.id)
    assert tried.status == ("canceled" if why == "cancel" else "timeout")
    assert tried.exit_code == -signal.SIGKILL
    assert tried.stdout_tail == ""


async def test_a_worker_that_was_declared_dead_ends_its_commands(app, db, mark, tmp_path, eventually):
    """F-07: whoever has the job now must be alone with it."""
    async with working(WorkerPlan(app, app.url, lease_seconds=LEASE)) as worker:
        worker._executors._grace = 0.3
        await stubborn.options(max_attempts=2).enqueue(mark=mark, begun=str(tmp_path / "begun"))
        await eventually((tmp_path / "begun").exists)
        await engine.workers.replace(db, worker._info.id)
        await asyncio.wait_for(worker.ended.wait(), 20)
        assert worker.fenced
        assert processes_with(mark) == []


async def test_a_worker_told_to_stop_while_the_database_is_gone_ends_its_commands_and_itself(
    app, start, mark, windlass_url, tmp_path, eventually
):
    async with Proxy(windlass_url) as proxy:
        worker = await start(url=proxy.url, lease=20, grace=60)
        await stubborn.enqueue(mark=mark, begun=str(tmp_path / "begun"))
        await eventually((tmp_path / "begun").exists)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    await worker.says("stopping")
    worker.signal(signal.SIGTERM)
    assert await worker.ends(40) == 0
    assert time.monotonic() - began < 30
    assert processes_with(mark) == []
