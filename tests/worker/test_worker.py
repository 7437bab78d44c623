"""A worker on a real database: outcomes, timeouts, cancels, logs, a graceful stop."""

import asyncio
import logging
import threading
import time
from uuid import UUID

import pytest

from windlass import Cancel, Done, Fail, JobContext, Retry, Snooze, Windlass, backoff
from windlass.model import JobState
from windlass.model.errors import Conflict
from windlass.processes.worker import WorkerPlan, working
from windlass.worker import JobLogHandler
from worker.hands import at_work, ended


@pytest.mark.parametrize(
    ("outcome", "status", "error"),
    [
        (Done({"a": 1}), JobState.SUCCEEDED, None),
        (None, JobState.SUCCEEDED, None),
        (Fail("never"), JobState.FAILED, "never"),
        (Cancel("needless"), JobState.CANCELED, "needless"),
        (Retry(after=0, error="again"), JobState.DEAD_LETTER, "again"),
    ],
)
async def test_an_outcome_decides_what_becomes_of_the_job(app, outcome, status, error):
    @app.job(max_attempts=2)
    async def job():
        return outcome

    async with at_work(app):
        seen = await ended(await job.enqueue())
    assert (seen.status, seen.error) == (status, error)
    assert seen.attempt_count == (2 if isinstance(outcome, Retry) else 1)


async def test_an_exception_is_retried_and_its_traceback_kept(app):
    tries = []

    @app.job(backoff=backoff.fixed(0))
    async def flaky(ctx: JobContext) -> str:
        tries.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return "at last"

    async with at_work(app):
        handle = await flaky.enqueue()
        assert await handle.result(20) == "at last"
        first, *_ = await app.jobs.attempts(handle.id)
    assert tries == [1, 2, 3]
    assert "ValueError: not yet" in first.error
    assert "/windlass/" not in first.error


async def test_a_snooze_comes_back_without_spending(app):
    seen = []

    @app.job(max_attempts=1)
    async def sleepy(ctx: JobContext):
        seen.append(ctx.attempt)
        return Snooze(0) if len(seen) < 4 else None

    async with at_work(app):
        assert (await ended(await sleepy.enqueue())).status is JobState.SUCCEEDED
    assert seen == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_typed_arguments_reach_the_handler_as_their_types(app, kind):
    got = []

    if kind == "async":

        @app.job
        async def job(ctx: JobContext, who: UUID, many: list[int], note: str = "x"):
            got.append((who, many, note))
    else:

        @app.job
        def job(who: UUID, many: list[int], note: str = "x"):
            got.append((who, many, note))

    who = UUID(int=7)
    async with at_work(app):
        await (await job.enqueue(who=who, many=[1, 2])).result(20)
    assert got == [(who, [1, 2], "x")]


async def test_a_payload_from_sql_that_does_not_fit_fails_with_the_paths_named(app, db):
    @app.job
    async def typed(n: int) -> None: ...

    async with at_work(app):
        handle = await app.jobs.trigger("typed", {"n": "many", "extra": 1})
        seen = await ended(handle)
    assert seen.status is JobState.FAILED
    assert "n: " in seen.error
    assert "extra: " in seen.error


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_timeout_ends_the_attempt_when_the_code_has_stopped(app, kind):
    stopped = threading.Event()

    if kind == "async":

        @app.job(timeout=0.2, max_attempts=1)
        async def slow():
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
    else:

        @app.job(timeout=0.2, max_attempts=1)
        def slow(ctx: JobContext):
            while not ctx.canceled:
                stopped.wait(0.01)
            stopped.set()

    async with at_work(app):
        handle = await slow.enqueue()
        seen = await ended(handle)
        (attempt,) = await app.jobs.attempts(handle.id)
    assert stopped.is_set()
    assert (seen.status, attempt.status) == (JobState.DEAD_LETTER, "timeout")
    assert "timeout of 0.2 s" in seen.error


async def test_a_running_job_is_canceled_within_moments(app):
    begun = asyncio.Event()

    @app.job
    async def endless():
        begun.set()
        await asyncio.Event().wait()

    async with at_work(app):
        handle = await endless.enqueue()
        await begun.wait()
        assert await handle.cancel("enough") is JobState.RUNNING
        seen = await asyncio.wait_for(ended(handle), 3)
        with pytest.raises(Conflict, match="canceled"):
            await handle.cancel()
    assert (seen.status, seen.error) == (JobState.CANCELED, "enough")


async def test_what_a_job_says_is_kept(app):
    @app.job
    async def talkative(ctx: JobContext):
        ctx.log("hello", n=1)
        ctx.log.warning("careful \x00 now")
        logging.getLogger("shop").error("from %s", "logging")
        ctx.progress(0.5, "half")
        ctx.add_cost(3)
        ctx.add_cost(4)

    handler = JobLogHandler()
    logging.getLogger().addHandler(handler)
    try:
        async with at_work(app):
            handle = await talkative.enqueue()
            await handle.result(20)
    finally:
        logging.getLogger().removeHandler(handler)
    async with app:
        lines = await app.jobs.list_logs(handle.id)
        seen = await handle.view()
    assert [(n.level, n.message) for n in lines] == [
        ("info", "hello"),
        ("warning", "careful \ufffd now"),
        ("error", "from logging"),
    ]
    assert [n.seq - lines[0].seq for n in lines] == [0, 1, 2]
    assert seen.cost_cents == 7


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_job_enqueues_children_in_its_own_tenant(app, db, make_tenant, kind):
    await make_tenant("acme")

    @app.job
    async def child() -> None: ...

    if kind == "async":

        @app.job
        async def parent(ctx: JobContext):
            await ctx.enqueue(child.request(), child.request())
    else:

        @app.job
        def parent(ctx: JobContext):
            ctx.enqueue_and_wait(child.request(), child.request())

    async with at_work(app):
        handle = await parent.options(tenant="acme").enqueue()
        await handle.result(20)
        view = await handle.view()
        assert len(view.children) == 2
        assert {(await app.jobs.get(c)).tenant for c in view.children} == {"acme"}


async def test_a_handler_that_exits_or_leaves_an_unprintable_error_does_not_hurt_the_worker(app):
    class Nasty(Exception):
        def __str__(self):
            raise RuntimeError("no")

    @app.job(max_attempts=1)
    async def exits():
        raise SystemExit(3)

    @app.job(max_attempts=1)
    def nasty():
        raise Nasty

    @app.job
    async def fine() -> int:
        return 1

    async with at_work(app):
        for job in (exits, nasty):
            assert (await ended(await job.enqueue())).status is JobState.DEAD_LETTER
        assert await (await fine.enqueue()).result(20) == 1


@pytest.mark.parametrize(
    "bad",
    ["\x00", "\ud800", float("nan"), float("inf"), {"x": object()}, {1, 2}, b"bytes", "x" * (2 << 20), [[]] * 1],
    ids=["nul", "surrogate", "nan", "inf", "object", "set", "bytes", "huge", "fine"],
)
async def test_a_result_that_cannot_be_stored_fails_the_job_and_says_why(app, bad):
    deep: list = []
    for _ in range(2000):
        deep = [deep]

    @app.job
    async def job(which: int):
        return bad if which else deep

    async with at_work(app):
        seen, nested = [await ended(await job.enqueue(which=n)) for n in (1, 0)]
    assert nested.status is JobState.FAILED
    if bad in ([[]], {1, 2}):
        assert seen.status is JobState.SUCCEEDED
    else:
        assert seen.status is JobState.FAILED
        assert "result cannot be kept" in seen.error
        assert seen.attempt_count == 1


async def test_an_error_that_cannot_be_stored_is_cleaned(app):
    @app.job(max_attempts=1)
    async def job():
        raise ValueError("\x00 \ud800 " + "y" * 100_000)

    async with at_work(app):
        seen = await ended(await job.enqueue())
    assert seen.status is JobState.DEAD_LETTER
    assert len(seen.error) <= 16_384


async def test_many_jobs_all_end_exactly_once(app):
    done = []

    @app.job
    async def count(n: int):
        done.append(n)

    async with at_work(app):
        await app.enqueue_many([count.request(n) for n in range(5000)])
        async with asyncio.timeout(60):
            while any((await app.jobs.counts()).values()):
                await asyncio.sleep(0.01)
    assert sorted(done) == list(range(5000))


async def test_a_graceful_stop_finishes_what_runs_and_gives_back_the_rest(app):
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job(max_attempts=1)
    async def one(n: int):
        begun.set()
        await go.wait()

    async with app:
        handles = [await one.enqueue(n) for n in range(3)]
        async with working(WorkerPlan(app, app.url, concurrency=1)) as worker:
            await begun.wait()
            worker.stop()
            go.set()
        views = [await handle.view() for handle in handles]
    assert [view.status for view in views] == ["succeeded", "queued", "queued"]
    assert [view.attempt_count for view in views] == [1, 0, 0]


async def test_a_stop_with_no_grace_gives_running_jobs_back_unspent(app):
    begun = asyncio.Event()

    @app.job(max_attempts=1)
    async def endless():
        begun.set()
        await asyncio.Event().wait()

    async with app:
        handle = await endless.enqueue()
        async with working(WorkerPlan(app, app.url, grace=0.05)):
            await begun.wait()
        seen = await handle.view()
    assert (seen.status, seen.attempt_count) == (JobState.QUEUED, 0)


async def test_a_delayed_job_runs_at_its_time_not_at_a_poll(app):
    late = []

    @app.job
    async def now(ctx: JobContext):
        late.append((await app.jobs.get(ctx.job_id)).started_at)

    async with at_work(app):
        await asyncio.sleep(0)
        handle = await now.options(delay=0.3).enqueue()
        await handle.result(20)
        view = await handle.view()
    assert 0 <= (view.started_at - view.scheduled_for).total_seconds() < 0.2


async def test_two_of_one_name_on_one_host_are_refused_loudly(app):
    async with at_work(app, name="alone"):
        with pytest.raises(Conflict, match="alone"):
            async with working(WorkerPlan(app, app.url, name="alone")):
                pass


async def test_a_definition_this_worker_does_not_know_is_left_for_others(app, windlass_url):
    other = Windlass(windlass_url, name="other")

    @other.job
    async def theirs() -> None: ...

    @app.job
    async def mine() -> None: ...

    async with other:
        foreign = await theirs.enqueue()
        async with at_work(app):
            await (await mine.enqueue()).result(20)
            late = await theirs.enqueue()
            await (await mine.enqueue()).result(20)
        for handle in (foreign, late):
            seen = await handle.view()
            assert (seen.status, seen.attempt_count) == (JobState.QUEUED, 0)
        async with working(WorkerPlan(other, windlass_url)):
            await foreign.result(20)


async def test_handlers_that_hold_the_apps_connections_do_not_cost_the_lease(windlass_url):
    """F-38: the worker's own connections are not the handlers'."""
    app = Windlass(windlass_url, name="tests", pool_size=2)
    begun = []

    @app.job(max_attempts=1)
    async def greedy():
        begun.append(1)
        async with app._database.transaction():
            await asyncio.sleep(2.0)

    async with app, working(WorkerPlan(app, app.url, lease_seconds=1.5)):
        handles = [await greedy.enqueue() for _ in range(2)]
        for handle in handles:
            await handle.result(20)
    assert len(begun) == 2


async def test_a_job_longer_than_its_lease_runs_once(app):
    """F-10."""
    runs = []

    @app.job
    async def long():
        runs.append(1)
        await asyncio.sleep(3)

    async with at_work(app, lease_seconds=1.0):
        await (await long.enqueue()).result(20)
    assert runs == [1]


async def test_a_blocked_loop_keeps_its_leases(app):
    """F-42: pure computation on the event loop, for several leases."""
    runs = []

    @app.job
    async def rude():
        runs.append(1)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            pass

    async with at_work(app, lease_seconds=1.0):
        await (await rude.enqueue()).result(20)
    assert runs == [1]


async def test_a_command_runs_with_its_arguments_and_its_output_is_kept(app, db, make_tenant):
    await make_tenant("acme")
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "code": {"type": "integer"}}}
    tell = app.command(
        "tell",
        argv=["sh", "-c", 'echo "$1 for $2"; echo oops >&2; exit $3', "sh", "{payload.text}", "{tenant_slug}", "{payload.code}"],
        schema=schema,
        max_attempts=1,
    )
    async with app:
        async with working(WorkerPlan(app, app.url)):
            good = await tell.options(tenant="acme").enqueue(text="$(id) a b", code=0)
            bad = await tell.options(tenant="acme").enqueue(text="x", code=3)
            odd = await tell.options(tenant="acme").enqueue(text="-rf", code=0)
            views = [await ended(handle) for handle in (good, bad, odd)]
        lines = await app.jobs.list_logs(good.id)
        (tried,) = await app.jobs.attempts(bad.id)
    assert [view.status for view in views] == ["succeeded", "dead_letter", "failed"]
    assert {(n.level, n.message) for n in lines} == {("info", "$(id) a b for acme"), ("error", "oops")}
    assert (tried.exit_code, tried.stdout_tail, tried.stderr_tail) == (3, "x for acme\n", "oops\n")
    assert "payload.text" in views[2].error or "text" in views[2].error
