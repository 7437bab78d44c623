"""The database itself restarts, crashes, loses backends: what was accepted is done, once the trouble is over."""

import asyncio
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from faults.faultapp import hold, quick
from windlass import engine, logs
from windlass.db import MISSED, Database, Listener, Statement, embedded, migrate
from windlass.model import JobState
from windlass.model.errors import Disconnected

_BACKENDS = Statement(
    "tests.backends",
    "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
)


_NOT_DONE = Statement(
    "tests.not_done",
    """select count(*) from unnest($1::uuid[]) i
       where not exists (select from windlass.attempts a where a.job_id = i and a.state = 'succeeded')""",
)
_ENDED_TWICE = Statement(
    "tests.ended_twice",
    "select count(*) from (select from windlass.attempts where state is not null group by job_id having count(*) > 1) twice",
)
_ODD_TRIES = Statement("tests.odd_tries", "select count(*) from windlass.attempts where status <> coalesce(state, 'lost')")


@pytest.fixture
def windlass_url(monkeypatch):
    """A server of this test's own, to do harm to."""
    home = Path(tempfile.mkdtemp(prefix="windlass-trouble-"))
    home.chmod(0o755)
    server = embedded.start_embedded(home)
    asyncio.run(_prepare(server.url))
    monkeypatch.setenv("TROUBLE_HOME", str(home))
    yield server.url
    embedded.stop_embedded(embedded.start_embedded(home))


async def _prepare(url: str) -> None:
    database = await Database.open(url, size=2)
    await migrate.apply(database)
    await engine.prune.make_partitions(database)
    await logs.make_partitions(database)
    await database.close()


def restart(how: int) -> None:
    """End the postmaster (SIGINT fast, SIGQUIT at once, SIGKILL without a word) and start it again."""
    home = Path(os.environ["TROUBLE_HOME"])
    server = embedded.start_embedded(home)
    os.kill(server.pid, how)
    while Path(f"/proc/{server.pid}").exists() and "Z" not in Path(f"/proc/{server.pid}/stat").read_text().split(")")[1][:3]:
        pass
    embedded.start_embedded(home)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_a_restart_does_not_start_a_running_job_twice(app, start, journal, tmp_path, eventually, how):
    """F-36: leases outlive the database's sessions."""
    workers, handles = [], []
    for n in range(3):
        workers.append(await start(lease=4, concurrency=1))
        handles.append(await hold.enqueue(journal.path, str(tmp_path / "go")))
        await eventually(lambda n=n: len(journal()) == n + 1)
    workers[2].signal(signal.SIGKILL)
    await asyncio.to_thread(restart, how)
    # The others look for the dead again, and have found the one that is.
    await eventually(lambda: _lost(app, handles[2]), 60)
    assert [(await handle.view()).status for handle in handles[:2]] == [JobState.RUNNING] * 2
    (tmp_path / "go").touch()
    for handle in handles:
        await eventually(lambda handle=handle: _result(handle), 60)
    assert [(await handle.view()).attempt_count for handle in handles] == [1, 1, 2]
    assert Counter(line[0] for line in journal()) == {"begin": 4, "end": 3}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_a_listener_listens_again_soon_after_a_restart(windlass_url, how):
    """F-32: its tries while there is no server must not lengthen its rests beyond a few seconds."""
    heard = asyncio.Queue()
    listener = Listener(windlass_url, "windlass", heard.put_nowait)
    await listener.start()
    try:
        await asyncio.to_thread(restart, how)
        assert await asyncio.wait_for(heard.get(), 5) == MISSED
        database = await Database.open(windlass_url, size=1)
        await database.value(Statement("tests.notify", "select pg_notify('windlass', 'one')"))
        await database.close()
        assert await asyncio.wait_for(heard.get(), 5) == "one"
    finally:
        await listener.stop()


async def test_backends_killed_all_the_time_under_load_lose_nothing(app, start, journal, eventually):
    """D-15: each kill -9 makes PostgreSQL restart all its backends."""
    workers = [await start(lease=4) for _ in range(2)]
    accepted, unknown = [], 0
    killer = asyncio.create_task(_kill_backends(app.url, times=6))
    while not killer.done():
        try:
            accepted += await app.enqueue_many([quick.options(max_attempts=50).request(journal.path) for _ in range(10)])
            await asyncio.sleep(0.01)
        except Disconnected:
            unknown += 1
            await asyncio.sleep(0.05)
    assert await killer == 6
    await eventually(lambda: _idle(app), 60)
    assert accepted
    assert unknown
    database = await Database.open(app.url, size=1)
    assert await database.value(_NOT_DONE, [one.id for one in accepted]) == 0
    assert await database.value(_ODD_TRIES) == 0
    assert await database.value(_ENDED_TWICE) == 0
    await database.close()
    assert not [line for worker in workers for line in worker.blurted]


async def _kill_backends(url: str, times: int) -> int:
    killed = 0
    while killed < times:
        await asyncio.sleep(1.5)
        try:
            database = await Database.open(url, size=1)
            pids = [row["pid"] for row in await database.rows(_BACKENDS)]
            await database.close()
        except Disconnected:
            continue
        if pids:
            os.kill(pids[killed % len(pids)], signal.SIGKILL)
            killed += 1
    return killed


async def _idle(app) -> bool:
    try:
        return not any((await app.jobs.counts()).values())
    except Disconnected:
        return False


async def _lost(app, handle) -> bool:
    try:
        return [a.status for a in await app.jobs.attempts(handle.id)][:1] == ["lost"]
    except Disconnected:
        return False


async def _result(handle) -> bool:
    try:
        return (await handle.view()).status is JobState.SUCCEEDED
    except Disconnected:
        return False
