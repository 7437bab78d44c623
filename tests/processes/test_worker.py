"""The worker's process around the worker: how it starts, what it notices, what reaches a job's log."""

import asyncio
import logging
from contextlib import contextmanager

import pytest

from windlass import JobContext, Windlass, engine, logs
from windlass.db import Database
from windlass.model.errors import DatabaseError, Disconnected
from windlass.processes import chores
from windlass.processes.worker import WorkerPlan, run_worker, working
from windlass.worker import Worker


@pytest.fixture
def app(windlass_url):
    return Windlass(windlass_url, name="tests")


async def test_a_worker_that_breaks_while_it_stops_ends_the_process(app, monkeypatch):
    """Else it would hang there for ever: alive, and doing nothing."""

    async def refuse(_: Worker) -> None:
        raise Disconnected("on purpose")

    monkeypatch.setattr(Worker, "_leave", refuse)
    plan = WorkerPlan(app, app._url)
    async with app, asyncio.timeout(20):
        with pytest.raises(Disconnected, match="on purpose"):
            async with working(plan) as worker:
                worker.stop()
                await worker.ended.wait()


async def test_partitions_that_cannot_be_made_now_do_not_keep_a_worker_from_working(app, monkeypatch):
    async def refuse(_: Database) -> list[str]:
        raise DatabaseError("PostgreSQL refused (55P03): canceling statement due to lock timeout.")

    for module in (engine.prune, logs):
        monkeypatch.setattr(module, "make_partitions", refuse)

    @app.job
    async def job() -> int:
        return 1

    async with app, working(WorkerPlan(app, app.url)):
        assert await (await job.enqueue()).result(20) == 1


async def test_one_step_of_keeping_history_that_fails_keeps_none_of_the_others(db, monkeypatch):
    async def refuse(_: Database) -> list[str]:
        raise DatabaseError("no")

    done = []

    async def note(_: Database) -> list[str]:
        done.append(1)
        return []

    for module, name in ((engine.prune, "make_partitions"), (logs, "drop_old")):
        monkeypatch.setattr(module, name, refuse)
    for module, name in ((logs, "make_partitions"), (engine.prune, "drop_old"), (engine.prune, "forget")):
        monkeypatch.setattr(module, name, note)
    assert await chores._keep_history(db) == chores._HISTORY_AGAIN
    assert len(done) == 3


@contextmanager
def untouched_logging():
    """The root logger as it is in a process that set up nothing."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_what_is_said_by_standard_logging_from_info_on_is_in_the_jobs_log(app, kind):
    def say() -> None:
        logging.getLogger("shop").info("in the log")
        logging.getLogger("shop").debug("not in the log")

    if kind == "async":

        @app.job
        async def job(ctx: JobContext) -> None:
            say()
    else:

        @app.job
        def job(ctx: JobContext) -> None:
            say()

    stopping = asyncio.Event()
    with untouched_logging():
        async with app:
            running = asyncio.create_task(run_worker(WorkerPlan(app, app.url), stopping=stopping))
            handle = await job.enqueue()
            await handle.result(20)
            stopping.set()
            assert await running == 0
            assert [line.message for line in await app.jobs.list_logs(handle.id)] == ["in the log"]


async def test_a_job_runs_from_the_queue_that_its_definition_has_just_been_given(app, db):
    @app.job
    async def job() -> int:
        return 1

    async with app, working(WorkerPlan(app, app.url)):
        await engine.registry.override(db, job.key, {"queue": "elsewhere"})
        assert await (await job.enqueue()).result(20) == 1
