"""Workers as the database knows them: their names, their silence, what they listen to."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass import engine
from windlass.db import Statement

_LISTENERS = Statement("tests.listeners", "select count(*) from windlass.listening")
_FALL_SILENT = Statement(
    "tests.fall_silent",
    "update windlass.workers set last_seen_at = clock_timestamp() - interval '1 minute' where id = $1",
)


async def test_silence_does_not_count_once_the_clock_has_passed_what_was_expected(db, hand, enqueue):
    """The statement was long on its way, or the clock has jumped."""
    await enqueue()
    worker = await hand()
    await worker.claim()
    await db.rows(_FALL_SILENT, worker.id)
    found = await engine.rescue(db, sweep=True, until=datetime.now(UTC) - timedelta(seconds=1))
    assert (found.lost, found.silent, found.counted) == (0, (), False)
    assert await engine.workers.beat(db, worker.id, 1, 1)
    found = await engine.rescue(db, sweep=True, until=datetime.now(UTC) + timedelta(minutes=1))
    assert found.counted


@pytest.mark.parametrize("how", ["found silent", "replaced"])
async def test_nobody_pays_for_waking_a_worker_that_is_dead(db, hand, how):
    """A NOTIFY takes a global lock at commit."""
    worker = await hand()
    await engine.workers.listen(db, worker.id, [worker.claims.queue_id])
    if how == "replaced":
        await engine.workers.replace(db, worker.id)
    else:
        await db.rows(_FALL_SILENT, worker.id)
        assert len((await engine.rescue(db)).silent) == 1
    assert await db.value(_LISTENERS) == 0
