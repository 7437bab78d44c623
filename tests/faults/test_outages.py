"""Everybody falls silent at once, and comes back: that is no reason to call anybody dead."""

import signal
from datetime import UTC, datetime, timedelta

import pytest

from faults.faultapp import hold, quick
from faults.proxy import Proxy
from windlass.db import Statement
from windlass.model import JobState
from windlass.processes.chores import Vigil

LEASE = 4.0
_SILENT = Statement(
    "tests.silent",
    """select count(*) from windlass.workers
       where ended_at is null and last_seen_at < clock_timestamp() - $1::float8 * interval '1 second'""",
)


@pytest.fixture
async def proxy(windlass_url):
    async with Proxy(windlass_url) as one:
        yield one


@pytest.fixture
def holding(app, start, journal, tmp_path, eventually):
    """Workers that hold a job each."""

    async def begin(count: int, url: str | None = None):
        workers, handles = [], []
        for n in range(count):
            workers.append(await start(lease=LEASE, concurrency=1, url=url))
            handles.append(await hold.enqueue(journal.path, str(tmp_path / "go")))
            await eventually(lambda n=n: len(journal()) == n + 1)
        return workers, handles

    return begin


async def _lost(app, handle) -> bool:
    return [a.status for a in await app.jobs.attempts(handle.id)][:1] == ["lost"]


@pytest.mark.parametrize("how", ["the database is away", "the workers are frozen"])
async def test_who_lives_is_not_declared_dead_after_an_outage_longer_than_the_lease(
    app, db, holding, proxy, tmp_path, eventually, how
):
    (*workers, killed), (*handles, orphan) = await holding(3, proxy.url)
    killed.signal(signal.SIGKILL)
    if how == "the database is away":
        proxy.leave()
    else:
        for worker in workers:
            worker.signal(signal.SIGSTOP)

    async def all_silent() -> bool:
        return await db.value(_SILENT, LEASE * 1.5) == 3

    await eventually(all_silent)
    proxy.come_back()
    workers[0].signal(signal.SIGCONT)

    async def one_is_back() -> bool:
        return await db.value(_SILENT, LEASE * 1.5) < 3

    await eventually(one_is_back)
    workers[1].signal(signal.SIGCONT)
    await eventually(lambda: _lost(app, orphan))  # so they look for the dead again
    for handle in handles:
        view = await handle.view()
        assert (view.status, view.attempt_count) == (JobState.RUNNING, 1)
    (tmp_path / "go").touch()
    assert [await handle.result(20) for handle in (*handles, orphan)] == ["attempt 1", "attempt 1", "attempt 2"]
    assert not [said for worker in workers for said in worker.said if "declared dead" in said["event"]]


async def test_a_process_that_has_just_started_gives_the_others_time_to_be_heard(app, db, holding, start, tmp_path, eventually):
    (frozen, killed), (handle, orphan) = await holding(2)
    killed.signal(signal.SIGKILL)
    frozen.signal(signal.SIGSTOP)

    async def both_silent() -> bool:
        return await db.value(_SILENT, LEASE * 1.5) == 2

    await eventually(both_silent)
    await start(lease=LEASE)
    frozen.signal(signal.SIGCONT)
    await eventually(lambda: _lost(app, orphan))
    assert (await handle.view()).attempt_count == 1
    (tmp_path / "go").touch()
    assert [await one.result(20) for one in (handle, orphan)] == ["attempt 1", "attempt 2"]
    assert not [said for said in frozen.said if "declared dead" in said["event"]]


async def test_work_goes_on_within_seconds_of_the_database_being_back(app, start, proxy, journal, eventually):
    """However long it was away: tries do not become rarer and rarer."""
    worker = await start(lease=30, url=proxy.url)
    proxy.leave()
    await eventually(lambda: any(said.get("loop") == "claim" and said["failures"] > 5 for said in worker.said), 30)
    handle = await quick.enqueue(journal.path)
    proxy.come_back()
    assert await handle.result(5) == 1


# -- the vigil: pure, with clocks of its own ------------------------------------------------------------------

_START = datetime(2030, 1, 1, tzinfo=UTC)


class Clocks:
    """A process's clock and the database's; looks, each answered as it says."""

    def __init__(self) -> None:
        self.vigil = Vigil(30.0)
        self.now = 1000.0
        self.ahead = 0.0

    def look(self, *, after: float = 2.0, takes: float = 0.0, answered: bool = True) -> bool:
        """Whether silence counted."""
        self.now += after
        began = self.now
        until = self.vigil.until(began)
        self.now += takes
        clock = _START + timedelta(seconds=self.now + self.ahead)
        if answered:
            self.vigil.answered(began, self.now, clock)
        return answered and clock <= until


@pytest.fixture
def clocks() -> Clocks:
    """One that has watched for long enough."""
    made = Clocks()
    assert [made.look() for _ in range(5)] == [False] * 4 + [True]
    return made


def test_a_look_that_is_not_answered_means_watching_anew_from_the_first_that_is(clocks):
    assert not clocks.look(takes=20.0, answered=False)
    assert not clocks.look(after=60.0)
    assert [clocks.look() for _ in range(4)] == [False, False, False, True]


def test_a_look_that_hangs_means_watching_anew_from_its_answer(clocks):
    assert not clocks.look(takes=20.0)
    assert [clocks.look() for _ in range(5)][-1]
    assert not clocks.look(after=0.1, takes=8.0)


def test_a_process_that_was_frozen_watches_anew(clocks):
    assert not clocks.look(after=40.0)
    assert not clocks.look()


def test_a_clock_that_jumps_ahead_means_watching_anew(clocks):
    """The machine slept, and this process's clock with it; or somebody set the database's."""
    clocks.ahead = 3600.0
    assert not clocks.look()
    assert not clocks.look()
    assert [clocks.look() for _ in range(4)][-1]


def test_a_clock_that_is_set_back_or_goes_a_little_wrong_changes_nothing(clocks):
    for ahead in (0.5, -0.5, -3600.0):
        clocks.ahead = ahead
        assert clocks.look()
