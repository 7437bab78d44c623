"""The ceiling: what this database does in bare SQL, with the engine's own statements and no worker around them."""

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from windlass import engine
from windlass.bench._ground import Ground
from windlass.db import Database, Row, Tx, statement

_CLAIM = statement(engine.__file__, "claim")
_SETTLE = statement(engine.__file__, "settle_succeeded")
_INSERT = statement(__file__, "insert")
_BATCH = 500
_NOBODY = UUID(int=0)
_HEAD = (-(2**31), _NOBODY)


async def claim_settle(ground: Ground) -> float:
    """Jobs per second: claim 500, settle these 500, and again, one after the other on two connections."""
    count = ground.plan.ceiling_jobs
    await ground.sweep()
    await ground.fill(count, queue=ground.ceiling_queue)
    async with session(ground.pinned) as claims, session(ground.pinned) as settles:
        began = time.perf_counter()
        await _work_off(ground, claims, settles)
        rate = count / (time.perf_counter() - began)
    ground.ceilings.claim_settle.append(rate)
    return rate


async def _work_off(ground: Ground, claims: Tx, settles: Tx) -> None:
    """Each claim starts where the last one ended, which is the fastest there is."""
    priority, position = _HEAD
    while True:
        rows = await claims.rows(
            _CLAIM, ground.ceiling_queue, [ground.tenant], [priority], [position], [_BATCH], _BATCH, _NOBODY, 30.0, None
        )
        if not rows:
            return
        await _settle(settles, rows)
        priority, position = rows[0]["priority"], max(row["job_id"] for row in rows)


async def _settle(settles: Tx, rows: Sequence[Row]) -> None:
    jobs, numbers = [row["job_id"] for row in rows], [row["no"] for row in rows]
    zeros = [0.0] * len(rows)
    await settles.value(_SETTLE, jobs, numbers, [None] * len(rows), zeros, zeros, _NOBODY)


async def claim_one(ground: Ground) -> None:
    """One job from the ceiling's queue."""
    await ground.pinned.rows(_CLAIM, ground.ceiling_queue, [ground.tenant], [_HEAD[0]], [_HEAD[1]], [1], 1, _NOBODY, 30.0, None)


async def insert_commit(ground: Ground) -> float:
    """Rows per second: one client inserts a row, awaits its commit, and again."""
    count = ground.plan.singles
    async with session(ground.database) as held:
        began = time.perf_counter()
        for _ in range(count):
            await held.rows(_INSERT, ground.tenant, ground.noop, ground.queue, 100, 3, '{"n": 1}')
        rate = count / (time.perf_counter() - began)
    ground.ceilings.insert_commit.append(rate)
    return rate


def session(database: Database) -> AbstractAsyncContextManager[Tx]:
    """One connection held throughout: to take one from the pool for each statement would lower the ceiling."""
    return database._session()  # pyright: ignore[reportPrivateUsage]
