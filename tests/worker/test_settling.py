"""Ends are written as they are, however often the database refuses; only what cannot be stored becomes a failure."""

import asyncio
import time
from uuid import UUID

import pytest

from waiting import eventually
from windlass.model import AttemptStatus, JobState, Settled
from windlass.model.errors import DatabaseError, Disconnected, NotStorable
from windlass.worker._settler import Settler
from worker.hands import Refusal, at_work, ended


@pytest.fixture
def echo(app):
    @app.job(max_attempts=1)
    async def echo(word: str) -> str:
        return word

    return echo


@pytest.mark.parametrize("state", ["53100", "57014", "55P03", "XX000", "23514"])
async def test_an_end_that_is_refused_for_reasons_that_pass_is_written_as_it_was(app, db, echo, state):
    refusal = Refusal(db)
    await refusal.begin(state)
    async with at_work(app, grace=1):
        handles = [await echo.enqueue(str(n)) for n in range(3)]
        await eventually(lambda: _at_least(refusal, 2))
        await refusal.end()
        assert [await handle.result(20) for handle in handles] == ["0", "1", "2"]
        assert [len(await app.jobs.attempts(handle.id)) for handle in handles] == [1, 1, 1]


async def test_an_end_that_is_refused_again_and_again_does_not_keep_the_others(app, db, echo, no_rests):
    refusal = Refusal(db)
    await refusal.begin("XX000", """new.result = '"bad"'""")
    async with at_work(app, grace=1):
        bad = await echo.enqueue("bad")
        handles = [await echo.enqueue(str(n)) for n in range(20)]
        assert [await handle.result(20) for handle in handles] == [str(n) for n in range(20)]
        assert (await bad.view()).status is JobState.RUNNING
        await refusal.end()
        assert await bad.result(20) == "bad"


async def test_only_what_cannot_be_stored_becomes_a_failure_that_says_so(app, db, echo):
    refusal = Refusal(db)
    await refusal.begin("22P02", """new.result = '"bad"'""")
    async with at_work(app, grace=1):
        handles = [await echo.enqueue(word) for word in ("a", "bad", "b")]
        views = [await ended(handle) for handle in handles]
    assert [view.status for view in views] == [JobState.SUCCEEDED, JobState.FAILED, JobState.SUCCEEDED]
    assert "cannot be stored" in views[1].error


async def test_an_end_of_which_nothing_can_be_stored_waits_and_hurts_nobody(app, db, echo):
    """It used to be tried again at once, for ever, until Python's stack was full."""
    refusal = Refusal(db)
    await refusal.begin("22000", """new.result = '"bad"' or new.state = 'failed'""")
    async with at_work(app, grace=1):
        bad = await echo.enqueue("bad")
        await eventually(lambda: _at_least(refusal, 3))
        began, tried = time.monotonic(), await refusal.count()
        await ended(await echo.enqueue("good"))
        assert await refusal.count() - tried <= 2 + (time.monotonic() - began) * 4
        await refusal.end()
        assert (await ended(bad)).status is JobState.FAILED


class Desk:
    """A transport that can only settle, and refuses as it is told to."""

    def __init__(self, refuse) -> None:
        self.refuse, self.written, self.sizes = refuse, [], []

    async def settle(self, batch):
        await asyncio.sleep(0)
        self.sizes.append(len(batch))
        problem = self.refuse(batch)
        if problem is not None:
            raise problem
        self.written += batch
        return {end.lease for end in batch}


def end(number: int) -> Settled:
    return Settled(UUID(int=number), number, AttemptStatus.SUCCEEDED, JobState.SUCCEEDED, '"result"')


async def write(desk: Desk, count: int, within: float = 20) -> list[int]:
    """Have so many ends written; the numbers of those that were told to be."""
    told: list[int] = []
    settler = Settler(desk, lambda ends, held: told.extend(one.lease for one in ends if one.lease in held))
    for number in range(count):
        settler.put(end(number))
    async with asyncio.timeout(within):
        await settler.drained()
    assert settler.unwritten == 0
    return told


@pytest.fixture
def no_rests(monkeypatch):
    monkeypatch.setattr("windlass.worker._settler.rest_after", lambda failures: 0.001 * failures)


@pytest.mark.parametrize("problem", [DatabaseError("full"), Disconnected("gone"), KeyError("stray"), RecursionError("deep")])
async def test_whatever_is_raised_no_end_is_lost_or_altered(no_rests, problem):
    problems = [problem] * 9
    desk = Desk(lambda _: problems.pop() if problems else None)
    told = await write(desk, 700)
    assert sorted(told) == list(range(700))
    assert sorted(desk.written, key=lambda one: one.lease) == [end(number) for number in range(700)]


async def test_what_is_too_much_for_one_statement_goes_by_halves(no_rests, monkeypatch):
    """500 ends with results of 1 MB take longer than a statement may."""
    monkeypatch.setattr("windlass.worker._settler._LONG", 0.0)
    desk = Desk(lambda batch: Disconnected("no answer in time") if len(batch) > 40 else None)
    assert len(await write(desk, 500)) == 500
    assert desk.sizes[:2] == [500, 250]
    assert len(desk.sizes) == 31


async def test_one_end_that_cannot_be_stored_is_found_among_many(no_rests):
    def refuse(batch):
        return NotStorable("\x00") if any(one.lease == 321 and one.result for one in batch) else None

    desk = Desk(refuse)
    assert len(await write(desk, 500)) == 500
    assert len(desk.sizes) < 25
    bad = [one for one in desk.written if one.state is not JobState.SUCCEEDED]
    assert [one.lease for one in bad] == [321]


async def test_a_flush_that_was_cancelled_leaves_its_ends_for_the_next():
    """A handler may cancel all tasks of the loop."""
    desk = Desk(lambda _: None)
    settler = Settler(desk, lambda *_: None)
    settler.put(end(1))
    await asyncio.sleep(0)
    settler._flushing.cancel()
    await asyncio.sleep(0.01)
    settler.put(end(2))
    await asyncio.wait_for(settler.drained(), 5)
    assert {one.lease for one in desk.written} == {1, 2}


async def test_whoever_is_told_of_an_end_and_raises_does_not_stop_the_writing():
    def raise_(*_):
        raise ValueError

    desk = Desk(lambda _: None)
    settler = Settler(desk, raise_)
    settler.put(end(1))
    await asyncio.wait_for(settler.drained(), 5)
    settler.put(end(2))
    await asyncio.wait_for(settler.drained(), 5)
    assert len(desk.written) == 2


async def _at_least(refusal, count: int) -> bool:
    return await refusal.count() >= count
