"""Workers that are killed, frozen, restarted: nothing is lost, and nobody late counts."""

import signal
import time
from collections import Counter

from faults.faultapp import hold, poison, quick
from windlass.model import JobState


async def test_a_killed_workers_job_runs_elsewhere_within_its_lease_and_a_little(app, start, journal, tmp_path, eventually):
    """F-03."""
    first = await start()
    handle = await hold.enqueue(journal.path, str(tmp_path / "go"))
    await eventually(lambda: len(journal()) == 1)
    await start()
    first.signal(signal.SIGKILL)
    killed = time.monotonic()
    await eventually(lambda: len(journal()) == 2)
    assert time.monotonic() - killed < 3.0 + 5.0
    (tmp_path / "go").touch()
    assert await handle.result(20) == "attempt 2"
    assert [a.status for a in await app.jobs.attempts(handle.id)] == ["lost", "succeeded"]


async def test_a_worker_that_comes_back_under_its_name_takes_its_jobs_back_at_once(app, start, journal, tmp_path, eventually):
    """F-01: the boot id, not the name, owns leases."""
    first = await start("keeper", lease=60)
    handle = await hold.enqueue(journal.path, str(tmp_path / "go"))
    await eventually(lambda: len(journal()) == 1)
    first.signal(signal.SIGKILL)
    await first.ends()
    began = time.monotonic()
    await start("keeper", lease=60)
    await eventually(lambda: len(journal()) == 2)
    assert time.monotonic() - began < 10
    (tmp_path / "go").touch()
    assert await handle.result(20) == "attempt 2"


async def test_a_frozen_worker_that_wakes_late_changes_nothing(app, start, journal, tmp_path, eventually):
    """F-05, F-07: SIGSTOP past the lease, another finishes, SIGCONT."""
    frozen = await start()
    handle = await hold.enqueue(journal.path, str(tmp_path / "go"))
    await eventually(lambda: len(journal()) == 1)
    frozen.signal(signal.SIGSTOP)
    await start()
    await eventually(lambda: len(journal()) == 2)
    (tmp_path / "go").touch()
    assert await handle.result(20) == "attempt 2"
    frozen.signal(signal.SIGCONT)
    await frozen.says("declared dead")
    assert await frozen.ends() == 1
    view = await handle.view()
    assert (view.status, view.result, view.attempt_count) == (JobState.SUCCEEDED, "attempt 2", 2)
    assert [a.status for a in await app.jobs.attempts(handle.id)] == ["lost", "succeeded"]


async def test_a_job_that_kills_its_worker_ends_in_the_dead_letters(app, start, journal, eventually):
    """F-11: the budget is spent at claim."""
    handle = await poison.enqueue(journal.path)
    for _ in range(3):
        worker = await start("victim", wait=False)
        assert await worker.ends() == -signal.SIGKILL
    await start("victim")
    await eventually(lambda: _is(handle, JobState.DEAD_LETTER))
    assert len(journal()) == 3
    assert "lost" in (await handle.view()).error


async def test_sigterm_spends_no_attempt(app, start, journal, tmp_path, eventually):
    """F-11: a graceful end is not a failure, however often it comes."""
    handle = await hold.options(max_attempts=1).enqueue(journal.path, str(tmp_path / "go"))
    for n in range(3):
        worker = await start()
        await eventually(lambda n=n: len([line for line in journal() if line[0] == "begin"]) == n + 1)
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGTERM)
        assert await worker.ends() == 0
    await start()
    (tmp_path / "go").touch()
    assert await handle.result(20) == "attempt 1"


async def test_workers_dying_all_the_time_lose_nothing(app, start, journal, eventually):
    """Killed, frozen and ended gracefully under load: every job ends, once."""
    handles = await app.enqueue_many([quick.options(max_attempts=50).request(journal.path) for _ in range(600)])
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        seen = len(journal())
        worker = await start(lease=2)
        await eventually(lambda seen=seen: len(journal()) > seen or len(journal()) >= 600)
        worker.signal(number)
    await start(lease=2)
    await eventually(lambda: _all_ended(app), 60)
    views = [await app.jobs.get(handle.id) for handle in handles]
    assert Counter(view.status for view in views) == {JobState.SUCCEEDED: 600}
    ran = Counter((line[0], line[1]) for line in journal())
    for view in views:
        assert ran[str(view.id), str(view.result)] == 1


async def _is(handle, state) -> bool:
    return (await handle.view()).status is state


async def _all_ended(app) -> bool:
    return not any((await app.jobs.counts()).values())
