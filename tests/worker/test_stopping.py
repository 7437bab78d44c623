"""Jobs that are made to stop, and workers that leave: what ends how, and that nothing hangs."""

import asyncio
import contextvars
import threading
import time

import pytest

from waiting import eventually
from windlass import Fail, JobContext, Snooze
from windlass.model import JobState
from windlass.model.errors import DatabaseError, Disconnected
from windlass.processes.worker import WorkerPlan, working
from windlass.worker._leaving import bounded
from windlass.worker._running import Stop
from worker.hands import at_work, ended

whose = contextvars.ContextVar("whose", default="nobody")


class Gate:
    """Lets a job say that it has begun, and wait."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    async def passed(self) -> None:
        await asyncio.to_thread(self.begun.wait, 20)


@pytest.mark.parametrize("stop", ["cancel", "timeout"])
async def test_what_a_job_raises_while_it_is_made_to_stop_is_no_reason_for_another_try(app, stop):
    begun, runs = asyncio.Event(), []

    @app.job(timeout=0.1 if stop == "timeout" else None, max_attempts=1 if stop == "timeout" else 3)
    async def clumsy():
        runs.append(1)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while cleaning up")

    async with at_work(app):
        handle = await clumsy.enqueue()
        await begun.wait()
        if stop == "cancel":
            await handle.cancel("enough")
        seen = await ended(handle)
        (tried,) = await app.jobs.attempts(handle.id)
    assert runs == [1]
    assert tried.status == ("canceled" if stop == "cancel" else "timeout")
    assert seen.status is (JobState.CANCELED if stop == "cancel" else JobState.DEAD_LETTER)


async def test_a_job_stopped_before_its_first_step_ends_all_the_same(app):
    """Its task is cancelled in the very moment it is made, when its code has not begun."""
    ran = []

    @app.job
    async def job(n: int):
        if n == 1:
            await asyncio.Event().wait()
        ran.append(n)

    async with at_work(app, concurrency=1) as worker:
        fill = worker._fill

        def fill_and_cancel():
            fill()
            worker._fill = fill
            (running,) = worker._held.values()
            assert not running.began
            worker._make_stop(running, Stop.CANCELED, "too soon")

        worker._fill = fill_and_cancel
        seen = await ended(await job.enqueue(1))
        await (await job.enqueue(2)).result(20)
        assert worker._active == 0
    assert (seen.status, seen.error) == (JobState.CANCELED, "too soon")
    assert ran == [2]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_job_that_raises_stop_iteration_has_raised(app, kind):
    def body():
        return next(iter(()))

    async def coroutine():
        body()

    job = app.job(max_attempts=1, key="job")(body if kind == "thread" else coroutine)
    async with at_work(app):
        seen = await ended(await job.enqueue())
    assert seen.status is JobState.DEAD_LETTER
    assert "StopIteration" in seen.error


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_job_does_not_see_what_another_has_set(app, kind):
    seen = []

    def look(n):
        seen.append(whose.get())
        whose.set(f"tenant {n}")

    async def coroutine(n: int):
        look(n)

    def function(n: int):
        look(n)

    job = app.job(key="job")(coroutine if kind == "async" else function)
    async with at_work(app, concurrency=1) as worker:
        settle = worker._transport.settle

        async def look_and_settle(batch):
            seen.append(whose.get())
            return await settle(batch)

        worker._transport.settle = look_and_settle
        await app.enqueue_many([job.request(n) for n in range(20)])
        await eventually(lambda: len(seen) > 20 and not worker._held)
    assert set(seen) == {"nobody"}


async def test_fast_jobs_that_slow_ones_follow_do_not_make_a_worker_hoard(app):
    """What was claimed ahead and waits here is given back, unspent, to whoever has time."""
    go, others = asyncio.Event(), []

    @app.job
    async def fast(): ...

    @app.job(max_attempts=1)
    async def slow(ctx: JobContext):
        if not go.is_set():
            others.append(ctx.job_id)
            await go.wait()

    async with at_work(app, concurrency=1) as worker:
        await (await fast.enqueue()).result(20)
        worker._ahead = 50
        worker._measure = lambda: None
        handles = await app.enqueue_many([slow.request() for _ in range(20)])
        await eventually(lambda: len(worker._held) > 5)
        await eventually(lambda: len(worker._held) == 1)
        assert worker._ahead == 0
        await eventually(lambda: _counts(app, JobState.QUEUED, 19))
        go.set()
        await eventually(lambda: _counts(app, JobState.QUEUED, 0))
    async with app:
        views = [await app.jobs.get(handle.id) for handle in handles]
    assert {(view.status, view.attempt_count) for view in views} == {(JobState.SUCCEEDED, 1)}


async def test_a_worker_whose_heartbeats_do_not_get_through_claims_nothing_until_they_do(app):
    @app.job
    async def job() -> int:
        return 1

    async with at_work(app, lease_seconds=1.0) as worker:
        await (await job.enqueue()).result(20)
        beat, broken = worker._transport.beat, threading.Event()
        broken.set()

        async def fail(*told):
            if broken.is_set():
                raise RuntimeError("not foreseen")
            return await beat(*told)

        worker._transport.beat = fail
        await eventually(lambda: worker._cut_off)
        handle = await job.enqueue()
        assert worker._lifeline.is_alive()
        assert worker._room() == 0
        broken.clear()
        assert await handle.result(20) == 1


async def test_nothing_is_claimed_while_ends_pile_up_unwritten(app, monkeypatch):
    monkeypatch.setattr("windlass.worker._worker._MOST_UNWRITTEN", 10)
    ran = []

    @app.job
    async def job(n: int):
        ran.append(n)

    async with at_work(app, concurrency=5) as worker:
        settle, stuck = worker._transport.settle, True

        async def refuse(batch):
            if stuck:
                raise DatabaseError("full")
            return await settle(batch)

        worker._transport.settle = refuse
        await app.enqueue_many([job.request(n) for n in range(300)])
        await eventually(lambda: worker._congested)
        await eventually(lambda: not worker._active and not worker._buffer)
        assert len(ran) < 100
        stuck = False
        await eventually(lambda: len(ran) == 300)
    assert sorted(ran) == list(range(300))


async def test_a_claim_in_flight_when_the_worker_stops_starts_nothing(app):
    ran = []

    @app.job
    async def job():
        ran.append(1)

    async with app:
        async with working(WorkerPlan(app, app.url)) as worker:
            claim = worker._transport.claim

            async def slow_claim(want, held):
                jobs = await claim(want, held)
                if jobs:
                    worker.stop()
                return jobs

            worker._transport.claim = slow_claim
            handle = await job.enqueue()
            await worker.ended.wait()
        seen = await handle.view()
    assert ran == []
    assert (seen.status, seen.attempt_count) == (JobState.QUEUED, 0)


@pytest.mark.parametrize("trouble", ["refused", "silent"])
async def test_a_worker_whose_database_is_away_leaves_in_bounded_time_and_ends_what_it_started(app, monkeypatch, trouble):
    monkeypatch.setattr("windlass.worker._worker.LAST_WORDS", 0.2)
    monkeypatch.setattr("windlass.worker._worker.bounded", lambda what, work, _=0: bounded(what, work, 0.2))
    stopped = asyncio.Event()

    @app.job
    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.job
    async def short(): ...

    async def away(*_):
        if trouble == "silent":
            await asyncio.Event().wait()
        raise Disconnected("gone")

    async with app:
        async with working(WorkerPlan(app, app.url, concurrency=2, grace=0.3)) as worker:
            await endless.enqueue()
            await eventually(lambda: worker._active == 1)
            for name in ("release", "settle", "ship", "close"):
                setattr(worker._transport, name, away)
            worker._ahead = 5
            await app.enqueue_many([short.request(), endless.request(), endless.request()])
            await eventually(lambda: worker._settler.unwritten == 1 and worker._active == 2)
            began = time.monotonic()
            worker.stop()
            await asyncio.wait_for(worker.ended.wait(), 10)
        assert time.monotonic() - began < 6
        assert stopped.is_set()
        assert not worker._lifeline.is_alive()


async def test_a_thread_that_takes_no_notice_is_given_back_last(app, monkeypatch):
    """Else another worker would run its job beside it."""
    monkeypatch.setattr("windlass.worker._worker.LAST_WORDS", 0.1)
    gate, order = Gate(), []

    @app.job(max_attempts=1)
    def deaf():
        gate.begun.set()
        gate.go.wait(20)

    async with app:
        handle = await deaf.enqueue()
        async with working(WorkerPlan(app, app.url, grace=0.05)) as worker:
            await gate.passed()
            for thing, name in ((worker._executors, "close"), (worker._transport, "release"), (worker._transport, "close")):
                setattr(thing, name, _noting(order, f"{type(thing).__name__}.{name}", getattr(thing, name)))
            worker.stop()
            await worker.ended.wait()
        seen = await handle.view()
        gate.go.set()
    assert order == ["Executors.close", "PostgresTransport.release", "PostgresTransport.close"]
    assert (seen.status, seen.attempt_count) == (JobState.QUEUED, 0)


async def test_a_second_run_of_the_same_attempt_says_its_lines_after_the_first(app):
    runs = []

    @app.job(max_attempts=1)
    async def sleepy(ctx: JobContext):
        runs.append(1)
        ctx.log(f"run {len(runs)}, line 1")
        ctx.log(f"run {len(runs)}, line 2")
        return Snooze(0) if len(runs) < 3 else Fail("enough")

    async with at_work(app):
        handle = await sleepy.enqueue()
        await ended(handle)
    async with app:
        lines = await app.jobs.list_logs(handle.id)
        later = await app.jobs.list_logs(handle.id, after=(lines[1].attempt, lines[1].seq))
    assert [line.message for line in lines] == [f"run {run}, line {n}" for run in (1, 2, 3) for n in (1, 2)]
    assert [line.message for line in later] == [line.message for line in lines[2:]]
    assert lines[-1].seq < 2**53


def _noting(order, name, function):
    async def noted(*told):
        order.append(name)
        return await function(*told)

    return noted


async def _counts(app, state, count) -> bool:
    return (await app.jobs.counts()).get(state, 0) == count
