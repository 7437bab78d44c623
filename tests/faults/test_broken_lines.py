"""Lines to the database that break, at the worst moment or silently."""

import asyncio
import re
from pathlib import Path
from uuid import uuid4

import pytest

import windlass
from faults.faultapp import hold
from faults.proxy import Proxy
from windlass import Windlass, backoff, engine
from windlass.db import Database, Listener, Statement, _database
from windlass.model import Definition, JobState, NewJob
from windlass.model.errors import Disconnected, JobFailed
from windlass.processes.worker import WorkerPlan, working
from windlass.transports.postgres import PostgresTransport

SOURCE = Path(windlass.__file__).parent
_KILL_LISTENERS = Statement(
    "tests.kill_listeners",
    """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and query ilike any (array['listen%', '%pg_listening_channels%'])""",
)
_ID_TYPES = Statement(
    "tests.id_types",
    """
select distinct udt_name as type from information_schema.columns where table_schema = 'windlass' and column_name ~ '(^|_)(id|no|seq)$'
union select distinct t.typname from pg_proc p cross join unnest(p.proargtypes) with ordinality a (type, n) join pg_type t on t.oid = a.type
where p.pronamespace = 'windlass'::regnamespace and p.proargnames[a.n] ~ '(^|_)(id|ids|no|queues|parents|depends_on)$'""",
)
_NOTIFY = Statement("tests.notify", "select pg_notify('windlass', $1)")


@pytest.fixture
async def proxy(windlass_url):
    async with Proxy(windlass_url) as one:
        yield one


async def test_an_enqueue_whose_answer_is_lost_after_commit_is_one_job(db, noop, proxy):
    """F-17: the caller cannot know; with a dedupe key it may ask again."""
    through = await Database.open(proxy.url, size=2)
    try:
        await through.value(Statement("tests.warm", "select 1"))
        proxy.lose_answer_to = b"COMMIT"
        with pytest.raises(Disconnected):
            await engine.enqueue(through, [NewJob(noop, dedupe_key="once")])
        assert proxy.lost == 1
        (again,) = await engine.enqueue(through, [NewJob(noop, dedupe_key="once")])
        assert again.deduplicated
        assert (await engine.reads.counts(db))[JobState.QUEUED] == 1
    finally:
        await through.close()


async def test_a_settle_whose_answer_is_lost_is_written_once(db, windlass_url, proxy, monkeypatch):
    """F-17: and whatever else an end does happens once: what waited for the job is released."""
    app = Windlass(windlass_url, name="tests")
    runs, settles = [], []
    settle = PostgresTransport.settle

    async def settle_on_a_line_that_breaks(transport, batch):
        settles.append(len(batch))
        if len(settles) == 1:
            proxy.lose_answer_to = batch[0].lease.to_bytes(8)  # the answer tells which leases were held
        return await settle(transport, batch)

    monkeypatch.setattr(PostgresTransport, "settle", settle_on_a_line_that_breaks)

    @app.job
    async def job(name: str) -> str:
        runs.append(name)
        return "done"

    async with app:
        await db.value(Statement("tests.setval", "select setval('windlass.lease_numbers', $1)"), 0x5EED_5EED_5EED)
        parent = await job.enqueue("parent")
        child = await job.options(depends_on=[parent.id]).enqueue("child")
        async with working(WorkerPlan(app, proxy.url, lease_seconds=30)):
            assert await parent.result(30) == "done"
            assert await child.result(30) == "done"
            for handle in (parent, child):
                assert [a.status for a in await app.jobs.attempts(handle.id)] == ["succeeded"]
    assert proxy.lost == 1
    assert settles == [1, 1, 1]  # the first end was told twice
    assert runs == ["parent", "child"]


async def test_a_claim_whose_answer_is_lost_is_taken_back(windlass_url, proxy):
    """The worker lives and knows nothing of the job: its lease runs out, and a sweep finds it."""
    app = Windlass(windlass_url, name="tests")

    @app.job
    async def job() -> str:
        return "done"

    async with app, working(WorkerPlan(app, proxy.url, lease_seconds=2)):
        await (await job.enqueue()).result(20)
        handle = await job.enqueue()
        proxy.cut()
        assert await handle.result(30) == "done"


async def test_a_worker_survives_its_connections_being_cut_again_and_again(windlass_url, proxy):
    app = Windlass(windlass_url, name="tests")

    @app.job
    async def job(n: int) -> int:
        return n

    async with app, working(WorkerPlan(app, proxy.url, lease_seconds=3)):
        for round_ in range(5):
            handles = [await job.enqueue(n) for n in range(20)]
            proxy.cut()
            assert [await handle.result(40) for handle in handles] == list(range(20)), round_


async def test_a_line_that_died_without_a_word_is_found_out_and_replaced(db, proxy):
    """F-31: else a worker would wait for ever for the answer to its claim, alive and idle."""
    through = await Database.open(proxy.url, size=2, pinned=True, patience=0.5)
    try:
        one = Statement("tests.one", "select 1")
        assert await through.value(one) == 1
        proxy.forget()
        with pytest.raises(Disconnected):
            await through.rows(one)
        assert await through.value(one) == 1
    finally:
        await through.close()


async def test_after_a_line_that_died_without_a_word_the_idle_ones_are_not_tried_in_turn(db, proxy):
    """Each of them would take its whole patience."""
    through = await Database.open(proxy.url, size=4, pinned=True, patience=1.0)
    try:
        await asyncio.gather(*(through.rows(Statement("tests.nap", "select pg_sleep(0.1)")) for _ in range(4)))
        proxy.forget()
        one = Statement("tests.one", "select 1")
        with pytest.raises(Disconnected):
            async with through.transaction() as tx:
                await tx.rows(one)
        assert [await through.value(one) for _ in range(4)] == [1] * 4
    finally:
        await through.close()


async def test_a_line_that_breaks_behind_a_pooler_is_told_as_such(db, proxy, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(_database, "_behind_pooler", _yes)
        through = await Database.open(proxy.url, size=1, pinned=True)
    try:
        proxy.lose_answer_to = b"SET"
        with pytest.raises(Disconnected):
            await through.rows(Statement("tests.one", "select 1"))
        assert proxy.lost == 1
    finally:
        await through.close()


async def _yes(_: str) -> bool:
    return True


class Heard(list):
    """What a listener heard."""

    def __init__(self) -> None:
        super().__init__()
        self.event = asyncio.Event()

    def __call__(self, payload: str) -> None:
        self.append(payload)
        self.event.set()

    async def until(self, payload: str, within: float = 15) -> None:
        async with asyncio.timeout(within):
            while payload not in self:
                self.event.clear()
                await self.event.wait()


async def test_a_killed_listener_listens_again(db, windlass_url):
    """F-32."""
    heard = Heard()
    listener = Listener(windlass_url, "windlass", heard)
    await listener.start()
    try:
        await db.value(_NOTIFY, "one")
        await heard.until("one")
        assert await db.rows(_KILL_LISTENERS)
        await heard.until("", within=5)
        await db.value(_NOTIFY, "two")
        await heard.until("two")
    finally:
        await listener.stop()


async def test_a_half_open_listener_is_found_out(db, proxy):
    """F-33: no FIN, no RST, no answer."""
    heard = Heard()
    listener = Listener(proxy.url, "windlass", heard)
    await listener.start()
    try:
        proxy.black_hole = True
        seen = proxy.connections
        async with asyncio.timeout(10):
            while proxy.connections == seen:
                await asyncio.sleep(0.05)
        proxy.black_hole = False
        await heard.until("")
        await db.value(_NOTIFY, "back")
        await heard.until("back")
    finally:
        proxy.black_hole = False
        await listener.stop()


async def test_a_hearer_that_raises_hears_the_next_one(db, windlass_url):
    """F-34."""
    heard = Heard()

    def raise_once(payload: str) -> None:
        heard(payload)
        if payload == "bad":
            raise ValueError(payload)

    listener = Listener(windlass_url, "windlass", raise_once)
    await listener.start()
    try:
        for payload in ("bad", "good"):
            await db.value(_NOTIFY, payload)
        await heard.until("good")
    finally:
        await listener.stop()


async def test_jobs_start_by_polling_while_nobody_can_listen(windlass_url, proxy):
    app = Windlass(windlass_url, name="tests")

    @app.job
    async def job() -> int:
        return 1

    proxy.black_hole = True
    async with app, working(WorkerPlan(app, windlass_url, listen_url=proxy.url)):
        assert await (await job.enqueue()).result(20) == 1


async def test_a_cancel_is_obeyed_while_nobody_can_listen(app, start, proxy, journal, tmp_path, eventually):
    """F-19: notifications are a hint for cancels too."""
    worker = await start()
    handle = await hold.enqueue(journal.path, str(tmp_path / "never"))
    await eventually(lambda: len(journal()) == 1)
    db = await Database.open(app.url, size=1)
    await db.rows(_KILL_LISTENERS)
    await db.close()
    await handle.cancel("stop")
    await eventually(lambda: _canceled(handle), 6)
    assert worker.pid


async def _canceled(handle) -> bool:
    return (await handle.view()).status is JobState.CANCELED


async def test_notifications_stay_small_whatever_the_payload(db, noop, windlass_url, hand_listening):
    """F-25."""
    heard = Heard()
    listener = Listener(windlass_url, "windlass", heard)
    await listener.start()
    try:
        await engine.enqueue(db, [NewJob(noop, f'{{"x": "{"y" * 900_000}"}}'), *[NewJob(noop) for _ in range(5000)]])
        await heard.until(f"queue:{hand_listening}")
        assert max(map(len, heard)) < 200
        assert heard.count(f"queue:{hand_listening}") <= 2
    finally:
        await listener.stop()


@pytest.fixture
async def hand_listening(db, noop):
    """Somebody waits for the default queue."""
    ids = await engine.registry.queue_ids(db, ["default"])
    await engine.workers.listen(db, uuid4(), list(ids.values()))
    return ids["default"]


async def test_ids_beyond_two_billion_are_nothing_special(db, windlass_url):
    """F-28."""
    for sequence in await db.rows(
        Statement(
            "tests.sequences", "select schemaname || '.' || sequencename as name from pg_sequences where schemaname = 'windlass'"
        )
    ):
        await db.value(Statement("tests.setval", "select setval($1::text::regclass, 2147483646)"), sequence["name"])
    app = Windlass(windlass_url, name="tests")

    @app.job(queue="new", max_attempts=2, backoff=backoff.fixed(0.01))
    async def job(n: int) -> int:
        if n == 1:
            raise ValueError
        return n

    async with app, working(WorkerPlan(app, windlass_url)):
        handles = [await job.enqueue(n) for n in (0, 1, 2, 3, 4)]
        results = await asyncio.gather(*(handle.result(20) for handle in handles), return_exceptions=True)
        assert [one for one in results if not isinstance(one, JobFailed)] == [0, 2, 3, 4]
        assert [a.status for a in await app.jobs.attempts(handles[1].id)] == ["failed", "failed"]


async def test_no_column_or_cast_is_too_narrow_for_an_id(db):
    """F-28: ids are bigint or uuid everywhere; int is for counts that people choose."""
    rows = await db.rows(
        Statement(
            "tests.narrow",
            """
        select table_name || '.' || column_name as name from information_schema.columns
        where table_schema = 'windlass' and data_type in ('integer', 'smallint')""",
        )
    )
    assert {row["name"].split(".")[1] for row in rows} <= {
        "priority", "attempt", "max_attempts", "flags", "exit_code", "pid", "concurrency", "running", "weight", "version",
        "max_running", "dedupe_window_seconds", "retention_days", "retention_count", "attempt_count",
    }  # fmt: skip


async def test_no_statement_or_function_makes_an_id_an_int(db):
    """F-28: what is cast to int, or declared as one, is no id, no lease number and no queue's."""
    functions = await db.rows(
        Statement(
            "tests.functions", "select proname as name, prosrc as text from pg_proc where pronamespace = 'windlass'::regnamespace"
        )
    )
    statements = {path.stem: path.read_text() for path in SOURCE.glob("*/sql/*.sql")} | {
        row["name"]: row["text"] for row in functions
    }
    assert len(statements) > 60
    narrow = re.compile(r"(\S*)::(?:int|int4|integer|smallint)\b(?!\[)|\b(\w+) int\b(?!erval|\[)")
    made = {(name, found[1] or found[2]) for name, text in statements.items() for found in narrow.finditer(text)}
    ids = re.compile(r"(^|_|\.)(id|ids|no|queue|queues|lease|leases|seq)$")
    assert not [one for one in made if ids.search(one[1].strip("()"))]
    types = {row["type"] for row in await db.rows(_ID_TYPES)}
    assert types <= {"uuid", "int8", "_uuid", "_int8", "text"}  # text, for a correlation is the caller's own


async def test_definitions_can_be_synced_by_many_at_once(db):
    wanted = [Definition(f"d{n}", queue=f"q{n}") for n in range(20)]
    await asyncio.gather(*(engine.registry.sync(db, "tests", wanted) for _ in range(10)))
    assert len(await engine.registry.effective(db)) == 20
