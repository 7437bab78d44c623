"""The one table of all periodic work. Each line is a door function of a room; any number of processes may run
them at once, for each is one statement after another that skips what others have in hand.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from windlass import engine, logs
from windlass.db import MISSED, Database
from windlass.lifecycle import Loop
from windlass.model.errors import Disconnected

_log = structlog.get_logger("windlass.chores")
_DUE_LONGEST, _BLOCKED_LONGEST = 1.0, 5.0
_RESCUE_EVERY, _SWEEP_EVERY, _SETTLING_DOWN = 2.0, 30.0, 8.0
_SWEEP_SHARE = 30  # it may take one part in so many of the time: slow while a snapshot keeps dead leases
_HISTORY_EVERY = 3600.0


@dataclass(frozen=True, slots=True)
class Chore:
    """One line of the table; the body answers how long to rest."""

    name: str
    body: Callable[[], Awaitable[float]]


class Chores:
    """Runs the table on one database."""

    def __init__(self, database: Database, lease_seconds: float = engine.LEASE_SECONDS) -> None:
        due, rescuer = engine.Due(), _Rescuer(database, lease_seconds)
        self.table = [
            Chore("promote", lambda: due.promote(database, _DUE_LONGEST)),
            Chore("recheck", lambda: engine.recheck_blocked(database, _BLOCKED_LONGEST)),
            Chore("rescue", rescuer.rescue),
            Chore("history", lambda: _keep_history(database)),
        ]
        self._loops = {chore.name: Loop(chore.name, chore.body) for chore in self.table}

    def start(self) -> None:
        """Begin."""
        for loop in self._loops.values():
            loop.start()

    async def stop(self) -> None:
        """End, each after what it is at."""
        for loop in self._loops.values():
            await loop.stop()

    def hear(self, payload: str) -> None:
        """A notification: something is due sooner than was known."""
        if payload in {"due", MISSED}:
            self._loops["promote"].wake()
            self._loops["recheck"].wake()


class _Rescuer:
    """After the database was away, workers get time for a heartbeat before any is declared dead."""

    def __init__(self, database: Database, lease_seconds: float) -> None:
        self._database, self._lease = database, lease_seconds
        self._sweep_at = 0.0
        self._not_before = 0.0

    async def rescue(self) -> float:
        now = time.monotonic()
        if now < self._not_before:
            return self._not_before - now
        sweep = now >= self._sweep_at
        try:
            found = await engine.rescue(self._database, sweep=sweep, lease_seconds=self._lease)
        except Disconnected:
            self._not_before = now + min(_SETTLING_DOWN, self._lease / 2)
            raise
        if sweep:
            took = time.monotonic() - now
            self._sweep_at = now + max(min(_SWEEP_EVERY, self._lease), took * _SWEEP_SHARE)
        if found.silent or found.lost:
            _log.warning("workers were lost", workers=found.silent, jobs_taken_back=found.lost, jobs_ended=found.ended)
        return min(_RESCUE_EVERY, self._lease / 4)


async def _keep_history(database: Database) -> float:
    await engine.prune.make_partitions(database)
    await logs.make_partitions(database)
    dropped = [*await engine.prune.drop_old(database), *await logs.drop_old(database)]
    await engine.prune.forget(database)
    if dropped:
        _log.info("history dropped", partitions=dropped)
    return _HISTORY_EVERY
