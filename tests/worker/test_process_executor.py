"""Jobs in child processes: what they answer, what they say, how they die, and that nothing of them is left."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import pytest
import uvloop

from windlass.model import Cancel, ClaimedJob, Done, Enqueued, Fail, NewJob, Retry, Snooze
from windlass.model.errors import NotConfigured, UnknownDefinition
from windlass.worker.context import Logged, Progressed, Said, Spent, Wire
from windlass.worker.executors._process import ChildDied, ProcessPool

pytestmark = pytest.mark.timeout(60)

APP = textwrap.dedent("""
    import asyncio, json, logging, os, signal, stat, subprocess, sys, threading, time
    from datetime import UTC, datetime, timedelta
    from types import SimpleNamespace
    from uuid import UUID

    from windlass.model import Cancel, Definition, Done, Fail, NewJob, Retry, Snooze
    from windlass.model.errors import BadPayload, UnknownDefinition, WindlassError
    from windlass.worker.context import current_job
    from windlass.worker.handlers import Handler, Handlers

    def is_socket(name):
        return int(name) > 2 and os.path.exists("/proc/self/fd/" + name) and stat.S_ISSOCK(os.fstat(int(name)).st_mode)

    app = SimpleNamespace(handlers=Handlers("jobs:app"))
    os.environ["LINE"] = next(name for name in os.listdir("/proc/self/fd") if is_socket(name))
    log = logging.getLogger("shop")

    def decode(payload):
        arguments = json.loads(payload)
        if "bad" in arguments:
            raise BadPayload("k", [("bad", "is bad")])
        if "worse" in arguments:
            raise KeyError("worse")
        return arguments

    def job(function, wants_context=False):
        app.handlers.add(Handler(Definition(function.__name__), "process", decode, function, wants_context))
        return function

    def told(function):
        return job(function, wants_context=True)

    @job
    def add(a, b):
        return {"sum": a + b, "pid": os.getpid()}

    @job
    def leave():
        return subprocess.Popen(["sleep", "99"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid

    @job
    def end(kind):
        return {
            "none": None, "tuple": (1, 2), "done": Done([1]),
            "retry": Retry(), "after": Retry(timedelta(minutes=2), "later"),
            "snooze": Snooze("5m"), "fail": Fail("no\\x00"), "cancel": Cancel("why"),
            "odd": object(), "nan": [float("nan")], "circle": app, "half": Done("\\ud800"),
            "long": Done("x" * 2_000_000), "never": Retry("soon"),
        }[kind]

    def inner():
        raise ValueError("boom \\ud800")

    @job
    def fall(kind):
        if kind == "raise":
            inner()
        if kind == "exit":
            sys.exit(3)
        if kind == "interrupt":
            raise KeyboardInterrupt
        if kind == "deep":
            fall(kind)

    @job
    def die(kind):
        print("these are my last words", file=sys.stderr, flush=True)
        if kind == "exit":
            os._exit(3)
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "segfault":
            __import__("ctypes").string_at(0)
        if kind == "hang up":
            os.closerange(3, 64)
        if kind == "garble":
            os.write(int(os.environ["LINE"]), b"garbage" * 9)
            time.sleep(99)

    @told
    def speak(ctx, name="x"):
        ctx.log("hello", n=1, at=UUID(int=7))
        ctx.log.error("odd \\ud800", value=object, half="\\ud800")
        ctx.progress(0.25, "a quarter")
        ctx.progress(float("nan"))
        ctx.add_cost(3)
        logging.info("from %s", "the root")
        log.warning("from a logger")
        log.debug("not this one")
        log.info("%d is no number", "this")
        thread = threading.Thread(target=lambda: log.critical("from a thread"))
        thread.start()
        thread.join()
        try:
            raise ValueError("seen")
        except ValueError:
            log.exception("caught")
        same = current_job.get() is ctx
        deadline = ctx.deadline and ctx.deadline.isoformat()
        ids = [str(ctx.job_id), str(ctx.tenant_id)]
        return [*ids, ctx.key, ctx.attempt, ctx.max_attempts, deadline, ctx.canceled, same]

    @told
    async def speak_async(ctx, **_):
        await asyncio.sleep(0)
        log.info("async")
        new_year = datetime(2030, 1, 1, tzinfo=UTC)
        made = await ctx.enqueue(NewJob("child", '{"a":1}', depends_on=(UUID(int=1),), due_at=new_year))
        return [str(made[0].id), made[0].deduplicated]

    @told
    def spawn_child(ctx, key="child"):
        try:
            made = ctx.enqueue_and_wait(NewJob(key, parent_id=UUID(int=5)), NewJob(key))
        except UnknownDefinition as problem:
            return ["unknown", problem.key, str(problem)]
        except WindlassError as problem:
            return ["windlass", str(problem)]
        return [[str(one.id), one.deduplicated] for one in made]

    @told
    def linger(ctx, go):
        def later():
            while not os.path.exists(go):
                time.sleep(0.002)
            ctx.log("too late")
        threading.Thread(target=later, daemon=True).start()

    @told
    def wait(ctx, ignore=False, tree=False, swallow=False):
        pids = [os.getpid()]
        if ignore:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if tree:
            orphan = "(setsid sh -c 'trap \\"\\" TERM; echo $$; sleep 98; sleep 97' &)"
            script = f"trap '' TERM; setsid sleep 99 & echo $!; {orphan}; wait"
            shell = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
            pids += [shell.pid, int(shell.stdout.readline()), int(shell.stdout.readline())]
        try:
            ctx.log("ready", pids=pids)
            while True:
                time.sleep(0.01)
        except SystemExit:
            if not swallow:
                raise
        finally:
            ctx.log("bye", canceled=ctx.canceled)

    @told
    def fork(ctx):
        pid = os.fork()
        if pid == 0:
            log.info("from a fork")
            time.sleep(99)
        ctx.log("ready", pids=[pid])
        os._exit(5)

    @told
    def chatter(ctx):
        while True:
            ctx.log("x" * 100)

    @job
    def where():
        return [os.getcwd(), sys.argv, os.environ.get("WINDLASS_DATABASE_URL"), os.getsid(0) == os.getpid()]

    @job
    def descriptors():
        listing = [sys.executable, "-c", "import os; print(len(os.listdir('/proc/self/fd')))"]
        return int(subprocess.check_output(listing, close_fds=False))
""")

JOB = ClaimedJob(uuid4(), 4, uuid4(), uuid4(), 2, 5, 100, '{"not": "this"}')
SOON = 20  # seconds: far from the grace and from the sleeps, and enough for a busy machine
Story = Callable[[ProcessPool, "Ears"], Awaitable[Any]]


class Ears:
    """The worker's side of a wire: takes in what jobs say, and lets others wait for it."""

    def __init__(self) -> None:
        self.said: list[tuple[ClaimedJob, Said]] = []
        self.asked: list[NewJob] = []
        self.wire = Wire(self._say, self._enqueue, lambda _: False)
        self._news = asyncio.Event()

    def _say(self, job: ClaimedJob, said: Said) -> None:
        self.said.append((job, said))
        self._news.set()

    def _enqueue(self, job: ClaimedJob, jobs: Sequence[NewJob]) -> "Future[list[Enqueued]]":
        """Answers later and from another thread, as a transport might."""
        assert job is JOB
        future: Future[list[Enqueued]] = Future()
        self.asked += jobs
        threading.Timer(0.01, self._answer, [future, jobs]).start()
        return future

    def _answer(self, future: "Future[list[Enqueued]]", jobs: Sequence[NewJob]) -> None:
        match jobs[0].key:
            case "unknown":
                future.set_exception(UnknownDefinition("unknown"))
            case "broken":
                future.set_exception(ZeroDivisionError("at the worker"))
            case _:
                future.set_result([Enqueued(UUID(int=number), deduplicated=number == 1) for number in range(len(jobs))])

    def lines(self) -> list[str]:
        return [said.message for _, said in self.said if isinstance(said, Logged)]

    async def pids(self) -> list[int]:
        """Wait for a job to say which its processes are."""
        told: Any = (await self.heard("ready")).fields["pids"]
        return told

    async def heard(self, message: str) -> Logged:
        async with asyncio.timeout(20):
            while True:
                for _, said in self.said:
                    if isinstance(said, Logged) and said.message == message:
                        return said
                self._news.clear()
                await self._news.wait()


class Cast:
    """A pool with ears, on either kind of loop; afterwards nothing of it may be left."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._loop_factory = loop_factory

    def play(self, story: Story, source: str = "jobs:app", size: int = 1, grace: float = 60.0) -> Any:
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            return runner.run(self._act(story, source, size, grace))

    async def _act(self, story: Story, source: str, size: int, grace: float) -> Any:
        pool = ProcessPool(source, size, grace=grace)
        try:
            return await story(pool, Ears())
        finally:
            await pool.close()
            assert not [found for found in psutil.Process().children() if alive(found.pid) and found.name() != "postgres"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cast(home: Path) -> Cast:
    assert home.exists()
    return Cast(uvloop.new_event_loop)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def either_cast(request: pytest.FixtureRequest, home: Path) -> Cast:
    """For what depends on the loop: starting, reading, dying, ending."""
    assert home.exists()
    return Cast(request.param)


async def do(pool: ProcessPool, ears: Ears, name: str, deadline: datetime | None = None, **payload: object) -> Any:
    return await pool.run(name, JOB, name, json.dumps(payload), lambda: deadline, ears.wire)


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not, once its last thread has ended."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    """Wait on a condition."""
    instant, deadline = threading.Event(), time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        instant.wait(0.005)


async def canceled(task: "asyncio.Task[Any]") -> float:
    """Cancel it; the seconds until it has ended."""
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return time.monotonic() - began


def test_a_child_runs_one_job_after_the_other(either_cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        answers = [await do(pool, ears, "add", a=1, b=number) for number in range(5)]
        assert [answer["sum"] for answer in answers] == [1, 2, 3, 4, 5]
        assert len({answer["pid"] for answer in answers}) == 1
        assert answers[0]["pid"] != os.getpid()

    either_cast.play(story)


def test_no_child_is_started_before_it_is_needed(cast: Cast) -> None:
    before = set(psutil.Process().children())  # the tests' PostgreSQL may be one of them

    async def story(_: ProcessPool, __: Ears) -> None:
        await asyncio.sleep(0)
        assert set(psutil.Process().children()) <= before

    cast.play(story, size=4)


def test_as_many_run_at_once_as_there_is_room_for(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        answers = await asyncio.gather(*(do(pool, ears, "add", a=1, b=number) for number in range(8)))
        assert [answer["sum"] for answer in answers] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert len({answer["pid"] for answer in answers}) <= 2

    cast.play(story, size=2)


def test_every_outcome_comes_back_as_it_was(cast: Cast) -> None:
    expected = {
        "none": None,
        "tuple": [1, 2],
        "done": Done([1]),
        "retry": Retry(),
        "after": Retry(120.0, "later"),
        "snooze": Snooze(300.0),
        "fail": Fail("no\ufffd"),
        "cancel": Cancel("why"),
    }

    async def story(pool: ProcessPool, ears: Ears) -> None:
        assert {kind: await do(pool, ears, "end", kind=kind) for kind in expected} == expected

    cast.play(story)


def test_f23_f24_a_result_that_cannot_be_stored_fails_the_job_for_good_and_says_so(cast: Cast) -> None:
    expected = {
        "odd": "object has no JSON form",
        "circle": "SimpleNamespace has no JSON form",
        "nan": "JSON has no such number",
        "half": "surrogates",
        "long": "2,000,002 bytes",
        "never": "'soon' is not a duration",
    }

    async def story(pool: ProcessPool, ears: Ears) -> None:
        for kind, text in expected.items():
            answer = await do(pool, ears, "end", kind=kind)
            assert isinstance(answer, Fail)
            assert text in answer.reason
            assert answer.reason.startswith("The job's outcome makes no" if kind == "never" else "The job ran, but its result")
        assert (await do(pool, ears, "add", a=1, b=1))["sum"] == 2

    cast.play(story)


def test_what_a_job_raises_is_told_from_the_handler_on(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        story = (await do(pool, ears, "fall", kind="raise")).error
        assert story.startswith("ValueError: boom \ufffd\n\nTraceback (most recent call last):\n")
        assert "in inner" in story
        assert "_child.py" not in story
        assert (await do(pool, ears, "fall", kind="exit")).error.startswith("SystemExit: 3")
        assert (await do(pool, ears, "fall", kind="interrupt")).error.startswith("KeyboardInterrupt")
        assert (await do(pool, ears, "fall", kind="deep")).error.startswith("RecursionError")
        assert await do(pool, ears, "fall", kind="not at all") is None

    cast.play(story)


def test_a_payload_that_does_not_fit_fails_the_job_for_good(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        assert await do(pool, ears, "add", bad=1) == Fail("The payload does not fit 'k': bad: is bad")
        assert (await do(pool, ears, "add", worse=1)).error.startswith("KeyError: 'worse'")
        assert (await do(pool, ears, "add", a=1)).error.startswith("TypeError: add() missing")
        assert "no function for 'unheard'" in (await do(pool, ears, "unheard")).error

    cast.play(story)


def test_a_job_speaks_through_its_context_and_through_logging(cast: Cast) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=9)

    async def story(pool: ProcessPool, ears: Ears) -> None:
        answer = await do(pool, ears, "speak", deadline)
        assert abs(datetime.fromisoformat(answer.pop(5)) - deadline) < timedelta(seconds=1)
        assert answer == [str(JOB.id), str(JOB.tenant_id), "speak", 2, 5, False, True]
        assert all(job is JOB for job, _ in ears.said)
        *said, caught = [said for _, said in ears.said]
        assert said == [
            Logged("info", "hello", {"n": 1, "at": str(UUID(int=7))}),
            Logged("error", "odd \ufffd", {"unreadable": "{'value': <class 'object'>, 'half': '\\ud800'}"}),
            Progressed(0.25, "a quarter"),
            Spent(3),
            Logged("info", "from the root", {"logger": "root"}),
            Logged("warning", "from a logger", {"logger": "shop"}),
            Logged("error", "from a thread", {"logger": "shop"}),
        ]
        assert isinstance(caught, Logged)
        assert caught.message.startswith("caught\nTraceback")

    cast.play(story)


def test_a_job_enqueues_children_and_hears_why_not(either_cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        first, second = [str(UUID(int=0)), False], [str(UUID(int=1)), True]
        assert await do(pool, ears, "spawn_child") == [first, second]
        assert await do(pool, ears, "speak_async") == first
        assert ears.asked == [
            NewJob("child", parent_id=UUID(int=5)),
            NewJob("child"),
            NewJob("child", '{"a":1}', depends_on=(UUID(int=1),), due_at=datetime(2030, 1, 1, tzinfo=UTC)),
        ]
        assert ears.lines()[-1:] == ["async"]
        why = await do(pool, ears, "spawn_child", key="unknown")
        assert why[:2] == ["unknown", "unknown"]
        assert why[2].startswith("There is no definition 'unknown'")
        why = await do(pool, ears, "spawn_child", key="broken")
        assert why == ["windlass", "ZeroDivisionError: at the worker"]

    either_cast.play(story)


def test_a_thread_that_outlives_its_job_does_not_speak_for_the_next(cast: Cast, tmp_path: Path) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        await do(pool, ears, "linger", go=str(tmp_path / "go"))
        (tmp_path / "go").touch()
        for number in range(20):
            await do(pool, ears, "add", a=number, b=number)
        assert ears.said == []

    cast.play(story)


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [
        ("exit", 3, "exited with status 3"),
        ("kill", -9, "killed by SIGKILL, as the kernel does when memory runs out"),
        ("segfault", -11, "killed by SIGSEGV"),
        ("hang up", -9, "killed by SIGKILL"),
        ("garble", None, "broke its connection"),
    ],
)
def test_a_childs_death_is_only_its_own_jobs(cast: Cast, kind: str, code: int | None, text: str) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        first = (await do(pool, ears, "add", a=1, b=1))["pid"]
        with pytest.raises(ChildDied, match=text) as died:
            await do(pool, ears, "die", kind=kind)
        assert died.value.exit_code == code
        assert "these are my last words" in died.value.stderr
        assert len(died.value.stderr) <= 2048
        assert (await do(pool, ears, "add", a=1, b=1))["pid"] != first

    cast.play(story)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("nowhere:app", "No module named 'nowhere'"),
        ("jobs", "write module:attribute"),
        ("jobs:nothing", "has no attribute 'nothing'"),
        ("os:environ", "has no attribute 'handlers'"),
        ("broken:app", "SyntaxError"),
        ("other:app", "its `handlers` are list"),
    ],
)
def test_an_app_that_cannot_be_imported_says_why(cast: Cast, tmp_path: Path, source: str, text: str) -> None:
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "other.py").write_text("class app: handlers = []")

    async def story(pool: ProcessPool, ears: Ears) -> None:
        with pytest.raises(ChildDied, match="exited with status 1") as died:
            await do(pool, ears, "add", a=1, b="x" * 900_000)
        assert text in died.value.stderr

    cast.play(story, source)


def test_without_an_app_there_is_advice(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        with pytest.raises(NotConfigured, match="-A module:app"):
            await do(pool, ears, "add", a=1, b=1)

    cast.play(story, "")


def test_a_child_that_died_idle_costs_no_job(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        pid = (await do(pool, ears, "add", a=1, b=1))["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
        assert (await do(pool, ears, "add", a=1, b=1))["pid"] != pid

    cast.play(story)


def test_a_child_that_died_idle_is_dropped_at_once(cast: Cast) -> None:
    """With what it left, and before its pid can be somebody else's."""

    async def story(pool: ProcessPool, ears: Ears) -> None:
        left = await do(pool, ears, "leave")
        assert alive(left)
        os.kill((await do(pool, ears, "add", a=1, b=1))["pid"], signal.SIGKILL)
        async with asyncio.timeout(SOON):
            while pool._children:
                await asyncio.sleep(0.005)
        assert not alive(left)
        assert not pool._idle

    cast.play(story)


def test_the_clock_of_a_job_starts_when_it_has_a_child(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        begun: list[str] = []

        async def one(name: str, **payload: object) -> Any:
            return await pool.run(name, JOB, name, json.dumps(payload), lambda: begun.append(name), ears.wire)

        first = asyncio.create_task(one("wait"))
        await ears.pids()
        second = asyncio.create_task(one("add", a=1, b=2))
        await asyncio.sleep(0)
        assert begun == ["wait"]
        await canceled(first)
        assert (await second)["sum"] == 3
        assert begun == ["wait", "add"]

    cast.play(story)


def test_cancel_raises_in_the_job_and_hears_its_last_words(either_cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        task = asyncio.create_task(do(pool, ears, "wait"))
        (pid,) = await ears.pids()
        assert await canceled(task) < SOON
        assert not alive(pid)
        assert (await ears.heard("bye")).fields == {"canceled": True}
        assert (await do(pool, ears, "add", a=1, b=1))["sum"] == 2

    either_cast.play(story)


def test_a_job_that_swallows_the_cancel_ends_its_child_when_it_returns(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        task = asyncio.create_task(do(pool, ears, "wait", swallow=True))
        await ears.heard("ready")
        assert await canceled(task) < SOON

    cast.play(story)


def test_f20_cancel_leaves_no_survivor_of_a_tree_that_ignores_term(either_cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        task = asyncio.create_task(do(pool, ears, "wait", ignore=True, tree=True))
        pids = await ears.pids()
        assert len(pids) == 4
        assert 0.3 <= await canceled(task) < SOON
        assert not any(alive(pid) for pid in pids)

    either_cast.play(story, grace=0.3)


def test_canceling_again_and_again_does_not_hasten_the_return(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        task = asyncio.create_task(do(pool, ears, "wait", ignore=True))
        (pid,) = await ears.pids()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        assert not alive(pid)

    cast.play(story, grace=0.2)


def test_cancel_while_the_child_starts_leaves_nothing(either_cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        for turns in range(5):
            task = asyncio.create_task(do(pool, ears, "add", a=1, b="x" * 900_000))
            for _ in range(turns):
                await asyncio.sleep(0)
            await canceled(task)
            assert not [found for found in psutil.Process().children() if alive(found.pid) and found.name() != "postgres"]

    either_cast.play(story)


def test_cancel_in_the_middle_of_a_flood_of_words(either_cast: Cast) -> None:
    """The child stops between frames, not within one; the loop is not starved meanwhile."""

    async def story(pool: ProcessPool, ears: Ears) -> None:
        for _ in range(2):
            ears.said.clear()
            task = asyncio.create_task(do(pool, ears, "chatter"))
            await ears.heard("x" * 100)
            assert await canceled(task) < SOON
            assert set(ears.lines()) == {"x" * 100}

    either_cast.play(story)


def test_what_a_dead_child_left_running_is_ended(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        with pytest.raises(ChildDied) as died:
            await do(pool, ears, "fork")
        assert died.value.exit_code == 5
        assert ears.lines() == ["ready"]  # a fork does not speak: it would garble the frames
        (pid,) = await ears.pids()
        assert not alive(pid)

    cast.play(story)


def test_close_ends_what_still_runs(cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        task = asyncio.create_task(do(pool, ears, "wait"))
        waiting = asyncio.create_task(do(pool, ears, "wait"))
        (pid,) = await ears.pids()
        await pool.close()
        assert not alive(pid)
        with pytest.raises(ChildDied):
            await task
        with pytest.raises(NotConfigured, match="stopping"):
            await waiting

    cast.play(story)


def test_a_child_is_at_home_where_the_worker_is(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "postgresql://here")

    async def story(pool: ProcessPool, ears: Ears) -> None:
        folder, argv, url, leads = await do(pool, ears, "where")
        assert (folder, len(argv), url, leads) == (str(tmp_path), 1, "postgresql://here", True)
        assert await do(pool, ears, "descriptors") == 4  # 0, 1, 2, and the listing itself

    cast.play(story)


WORKER = """
import asyncio, sys
from uuid import uuid4
from windlass.model import ClaimedJob
from windlass.worker.context import Wire
from windlass.worker.executors._process import ProcessPool

def say(job, said):
    print(*said.fields["pids"], flush=True)

async def main():
    pool = ProcessPool("jobs:app", 1)
    job = ClaimedJob(uuid4(), 1, uuid4(), uuid4(), 1, 1, 100, "")
    await pool.run("wait", job, "wait", '{"ignore": true}', lambda: None, Wire(say, None, None))

asyncio.run(main())
"""


def test_a_child_does_not_outlive_a_killed_worker(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(APP)
    with subprocess.Popen([sys.executable, "-c", WORKER], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        child = int(worker.stdout.readline())
        assert alive(child)
        worker.kill()
        until(lambda: not alive(child))


def test_no_descriptor_is_left_open(either_cast: Cast) -> None:
    async def story(pool: ProcessPool, ears: Ears) -> None:
        counts: list[int] = []
        for _ in range(3):
            with pytest.raises(ChildDied):
                await do(pool, ears, "die", kind="exit")
            await asyncio.sleep(0)
            counts.append(psutil.Process().num_fds())
        assert counts[-1] <= counts[0]

    either_cast.play(story)
