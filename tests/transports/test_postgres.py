"""A worker's way to PostgreSQL: what a claim brings whatever breaks, who may have a name, what is enqueued while it runs."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from uuid import uuid4

import pytest

from faults.proxy import Proxy
from windlass import engine
from windlass.db import MISSED, Database, Statement
from windlass.model import Definition, Held, JobState, NewJob, WorkerInfo
from windlass.model.errors import Conflict, Disconnected
from windlass.transports import postgres
from windlass.transports.birth import birth_of, is_dead
from windlass.transports.postgres import PostgresTransport

_LISTENING = Statement("tests.listening", "select count(*) from windlass.listening where worker_id = $1")
_FORGET_LISTENING = Statement("tests.forget_listening", "delete from windlass.listening")
_BEAT_LATER = Statement("tests.beat_later", "update windlass.workers set last_seen_at = clock_timestamp() where id = $1")
_POLLED = Statement("tests.polled", "select queues from windlass.workers where id = $1")
_QUEUES = Statement(
    "tests.queues", "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


def info(name: str = "", **told) -> WorkerInfo:
    plain = WorkerInfo(uuid4(), name or uuid4().hex, "host", os.getpid(), "0", ("default",), ("noop",), 10, birth_of(os.getpid()))
    return replace(plain, **told)


@pytest.fixture
async def proxy(windlass_url):
    async with Proxy(windlass_url) as one:
        yield one


@pytest.fixture
async def through(proxy):
    """A worker's pool, through the proxy."""
    database = await Database.open(proxy.url, size=2, pinned=True)
    yield database
    await database.close()


async def join(database, *queues: str, handled=("noop",), **told) -> PostgresTransport:
    transport = PostgresTransport(database, queues or ["default"], handled, **told)
    await transport.open(info(queues=queues or ("default",)))
    await transport.definitions()
    return transport


# -- claims ------------------------------------------------------------------------------------------------------


async def test_what_came_from_one_queue_is_kept_when_the_next_ones_answer_is_lost(db, noop, through, proxy):
    await engine.registry.sync(db, "other", [Definition("letter", queue="mail")])
    transport = await join(through, "default", "mail", handled=("noop", "letter"))
    (one,) = await engine.enqueue(db, [NewJob(noop)])
    (two,) = await engine.enqueue(db, [NewJob("letter", '{"text": "to be lost"}', max_attempts=1)])
    proxy.lose_answer_to = b"to be lost"
    (first,) = await transport.claim(10, ())
    assert (first.id, proxy.lost) == (one.id, 1)
    (second,) = await transport.claim(10, {first.lease})
    assert (second.id, second.attempt) == (two.id, 1)
    assert await transport.settle([]) == set()
    assert (await engine.reads.counts(db))[JobState.RUNNING] == 2


async def test_jobs_whose_claim_was_not_heard_are_given_back_unspent_and_nothing_that_runs(db, noop, through, proxy):
    transport = await join(through)
    await engine.enqueue(db, [NewJob(noop) for _ in range(3)])
    held = {job.lease for job in await transport.claim(3, ())}
    ids = {one.id for one in await engine.enqueue(db, [NewJob(noop, '{"n": "to be lost"}', max_attempts=1) for _ in range(20)])}
    proxy.lose_answer_to = b"to be lost"
    with pytest.raises(Disconnected):
        await transport.claim(50, held)
    again = await transport.claim(50, held)
    assert {job.id for job in again} == ids
    assert {job.attempt for job in again} == {1}
    assert not held & {job.lease for job in again}
    assert (await engine.reads.counts(db))[JobState.RUNNING] == 23


async def test_a_worker_that_leaves_gives_back_what_it_never_heard_of(db, noop, through, proxy):
    transport = await join(through)
    await engine.enqueue(db, [NewJob(noop, '{"n": "to be lost"}')])
    proxy.lose_answer_to = b"to be lost"
    with pytest.raises(Disconnected):
        await transport.claim(1, ())
    await transport.close()
    assert (await engine.reads.counts(db))[JobState.QUEUED] == 1


async def test_claimed_jobs_are_kept_when_saying_that_one_is_busy_fails(db, noop, through, proxy, monkeypatch):
    transport = await join(through)
    await transport.idle(0)
    monkeypatch.setattr(postgres, "_BUSY_AFTER", -1.0)
    ids = [one.id for one in await engine.enqueue(db, [NewJob(noop) for _ in range(2)])]
    await transport.claim(1, ())
    proxy.lose_answer_to = b"DELETE"
    (job,) = await transport.claim(1, ())
    assert job.id in ids
    assert proxy.lost == 1


async def test_jobs_that_were_enqueued_before_their_definition_moved_away_are_left_to_others(db, noop):
    """Else a worker that does not know them would claim and give back the same ones for ever."""
    await engine.registry.sync(db, "other", [Definition("stranger")])
    await engine.enqueue(db, [NewJob("stranger")])
    await engine.registry.override(db, "stranger", {"queue": "elsewhere"})
    transport = await join(db)
    assert await transport.claim(10, ()) == []
    (mine,) = await engine.enqueue(db, [NewJob(noop)])
    assert [job.id for job in await transport.claim(10, ())] == [mine.id]


async def test_a_definition_that_moves_to_another_queue_is_followed_there(db, noop):
    transport = await join(db, follow=True)
    await transport.idle(0)
    await engine.registry.override(db, noop, {"queue": "elsewhere"})
    await transport.definitions()
    (moved,) = await engine.enqueue(db, [NewJob(noop)])
    assert [job.id for job in await transport.claim(10, ())] == [moved.id]
    await transport.idle(0)
    assert await db.value(_LISTENING, transport._me) == 2
    assert await db.value(_POLLED, transport._me) == ["default", "elsewhere"]


async def test_queues_that_were_chosen_stay_as_chosen(db, noop):
    transport = await join(db)
    await engine.registry.override(db, noop, {"queue": "elsewhere"})
    await transport.definitions()
    await engine.enqueue(db, [NewJob(noop)])
    assert await transport.claim(10, ()) == []


# -- waking ------------------------------------------------------------------------------------------------------


async def test_a_wish_to_be_woken_that_was_lost_is_made_again_after_a_reconnect(db, noop):
    transport = await join(db)
    await transport.idle(0)
    await db.rows(_FORGET_LISTENING)
    transport.hear(MISSED)
    await transport.idle(0)
    assert await db.value(_LISTENING, transport._me) == 1


async def test_a_wish_to_be_woken_that_failed_is_made_again(db, noop, through, proxy):
    transport = await join(through)
    proxy.leave()
    with pytest.raises(Disconnected):
        await transport.idle(0)
    proxy.come_back()
    await transport.idle(0)
    assert await db.value(_LISTENING, transport._me) == 1


# -- names -------------------------------------------------------------------------------------------------------


async def test_a_process_that_is_seen_to_be_gone_is_followed_at_once(db, noop):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as gone:
        birth = birth_of(gone.pid)
        await engine.workers.join(db, info("anna", pid=gone.pid, birth=birth))
        assert is_dead(birth, gone.pid) is False
    transport = PostgresTransport(db, ["default"], ["noop"])
    await asyncio.wait_for(transport.open(info("anna")), 3)


async def test_a_restarted_container_has_the_same_host_and_pid_and_is_not_taken_for_its_predecessor(db, noop):
    here, _, started = birth_of(os.getpid()).rpartition(":")
    await engine.workers.join(db, info("anna", birth=f"{here}:{int(started) - 1000}"))
    transport = PostgresTransport(db, ["default"], ["noop"])
    await asyncio.wait_for(transport.open(info("anna")), 3)


async def test_the_process_itself_is_alive(db, noop):
    await engine.workers.join(db, info("anna"))
    with pytest.raises(Conflict, match=r"'anna' is alive .*give this one another --name"):
        await PostgresTransport(db, ["default"], ["noop"]).open(info("anna"))


@pytest.mark.parametrize("birth", ["another-boot:4026531836:1", None], ids=["of another container", "unknown"])
async def test_a_process_that_cannot_be_seen_from_here_is_alive_while_its_heart_beats(db, noop, birth):
    """It has this host's name, and a pid that nobody has here."""
    other = info("anna", pid=2**22 + 1, birth=birth)
    await engine.workers.join(db, other)
    opening = asyncio.create_task(PostgresTransport(db, ["default"], ["noop"]).open(info("anna")))
    while not opening.done():
        await db.rows(_BEAT_LATER, other.id)
        await asyncio.wait([opening], timeout=0.1)
    with pytest.raises(Conflict):
        await opening


async def test_a_process_that_cannot_be_seen_from_here_is_dead_after_a_few_beats_that_did_not_come(db, noop, monkeypatch):
    monkeypatch.setattr(postgres, "_NAMESAKE_PATIENCE", 1.0)
    await engine.workers.join(db, info("anna", birth="another-boot:1:1"))
    await PostgresTransport(db, ["default"], ["noop"]).open(info("anna"))


async def test_of_two_that_start_at_once_under_one_name_one_wins(db, noop):
    openings = [PostgresTransport(db, ["default"], ["noop"]).open(info("anna")) for _ in range(5)]
    ended = await asyncio.gather(*openings, return_exceptions=True)
    assert [type(one) for one in ended if one is not None] == [Conflict] * 4


def test_a_zombie_has_ended():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        birth = birth_of(process.pid)
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(birth, process.pid) is True


# -- children ----------------------------------------------------------------------------------------------------


async def test_enqueues_that_wait_for_a_dedupe_key_do_not_keep_the_worker_from_its_work(db, noop, windlass_url):
    """F-38: somebody's open transaction holds the key."""
    few = await Database.open(windlass_url, size=2, pinned=True)
    try:
        transport = await join(few)
        async with db.transaction() as tx:
            await engine.enqueue(tx, [NewJob(noop, dedupe_key="k")])
            children = [asyncio.create_task(transport.enqueue([NewJob(noop, dedupe_key="k")])) for _ in range(6)]
            async with asyncio.timeout(10):
                while await db.value(_QUEUES) < postgres._CHILDREN:
                    await asyncio.sleep(0.01)
                await engine.enqueue(db, [NewJob(noop)])
                (job,) = await transport.claim(1, ())
                await transport.release([Held(job.id, job.lease)])
        assert all(one.deduplicated for answer in await asyncio.gather(*children) for one in answer)
    finally:
        await few.close()
