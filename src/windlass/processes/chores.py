"""The one table of all periodic work. Each line is a door function of a room; any number of processes may run
them at once, for each is one statement after another that skips what others have in hand.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from windlass import engine, logs
from windlass.db import MISSED, Database
from windlass.lifecycle import Loop
from windlass.model.errors import WindlassError
from windlass.processes.orphans import Orphans, inherits

_log = structlog.get_logger("windlass.chores")
_DUE_LONGEST, _BLOCKED_LONGEST = 1.0, 5.0
_RESCUE_EVERY, _SWEEP_EVERY, _SETTLING_DOWN = 2.0, 30.0, 8.0
_SWEEP_SHARE = 30  # it may take one part in so many of the time: slow while a snapshot keeps dead leases
_HISTORY_EVERY, _HISTORY_AGAIN = 3600.0, 60.0
_RETIRE_EVERY = 60.0
_TOLD = {"due": ("promote", "recheck"), MISSED: ("promote", "recheck", "rescue")}
_NEVER = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Chore:
    """One line of the table; the body answers how long to rest."""

    name: str
    body: Callable[[], Awaitable[float]]


class Chores:
    """Runs the table on one database."""

    def __init__(
        self, database: Database, lease_seconds: float = engine.LEASE_SECONDS, *, source: str = "", gone: Sequence[str] = ()
    ) -> None:
        """`gone` are the definitions of `source` that have left the code, but not yet every worker."""
        due, rescuer, retiring = engine.Due(), _Rescuer(database, lease_seconds), _Retiring(database, source, gone)
        self.table = [
            Chore("promote", lambda: due.promote(database, _DUE_LONGEST)),
            Chore("recheck", lambda: engine.recheck_blocked(database, _BLOCKED_LONGEST)),
            Chore("rescue", rescuer.rescue),
            Chore("history", lambda: _keep_history(database)),
            Chore("retire", retiring.retire),
        ]
        if inherits():
            self.table.append(Chore("orphans", Orphans().reap))
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
        """A notification: something is due sooner than was known, or the database is back."""
        for name in _TOLD.get(payload, ()):
            self._loops[name].wake()


class Vigil:
    """Whether a worker's silence says that it is dead. It does not when nobody could be heard: the database was away, its
    clock jumped, or this process itself was frozen. So silence counts only after a time of looks that came one soon after
    the other, were all answered, and found both clocks going alike; else each worker gets the time for a heartbeat.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._settling = min(_SETTLING_DOWN, lease_seconds / 2)
        self._longest_gap, self._slack = lease_seconds / 2, lease_seconds / 4
        self._last: tuple[float, datetime] | None = None
        self._since = 0.0
        self._expected = _NEVER

    def until(self, now: float) -> datetime:
        """What the database's clock may show at most for silence to count in the look that begins now. If that look is not
        answered, the row of them is broken.
        """
        last, self._last = self._last, None
        if last is None or now - last[0] > self._longest_gap:
            self._expected = _NEVER
        else:
            self._expected = last[1] + timedelta(seconds=now - last[0] + self._slack)
        return self._expected if now - self._since >= self._settling else _NEVER

    def answered(self, began: float, now: float, clock: datetime) -> None:
        """The look that began then has found the database's clock at this."""
        if clock > self._expected:
            self._since = now
        self._last = began, clock


class _Rescuer:
    def __init__(self, database: Database, lease_seconds: float) -> None:
        self._database, self._lease = database, lease_seconds
        self._vigil = Vigil(lease_seconds)
        self._sweep_at = 0.0

    async def rescue(self) -> float:
        began = time.monotonic()
        sweep = began >= self._sweep_at
        until = self._vigil.until(began)
        found = await engine.rescue(self._database, sweep=sweep, lease_seconds=self._lease, until=until)
        now = time.monotonic()
        if found.clock is not None:
            self._vigil.answered(began, now, found.clock)
        if sweep and found.counted:
            self._sweep_at = began + max(min(_SWEEP_EVERY, self._lease), (now - began) * _SWEEP_SHARE)
        if found.silent or found.lost:
            _log.warning("workers were lost", workers=found.silent, jobs_taken_back=found.lost, jobs_ended=found.ended)
        return min(_RESCUE_EVERY, self._lease / 4)


class _Retiring:
    """Definitions that have left this code are not runnable, once the last worker of an older version has ended."""

    def __init__(self, database: Database, source: str, gone: Sequence[str]) -> None:
        self._database, self._source, self._gone = database, source, list(gone)

    async def retire(self) -> float:
        self._gone = await engine.registry.retire(self._database, self._source, self._gone)
        return _RETIRE_EVERY


async def make_partitions(database: Database) -> bool:
    """The history's next partitions; whether all are there. What cannot be made now (somebody holds a lock) is made later:
    the default partitions take what comes meanwhile.
    """
    return await _each(lambda: engine.prune.make_partitions(database), lambda: logs.make_partitions(database))


async def _keep_history(database: Database) -> float:
    whole = await make_partitions(database)
    whole &= await _each(
        lambda: _drop(engine.prune.drop_old(database)),
        lambda: _drop(logs.drop_old(database)),
        lambda: engine.prune.forget(database),
    )
    return _HISTORY_EVERY if whole else _HISTORY_AGAIN


async def _drop(dropping: Awaitable[list[str]]) -> None:
    if dropped := await dropping:
        _log.info("history dropped", partitions=dropped)


async def _each(*steps: Callable[[], Awaitable[object]]) -> bool:
    """Take all these steps, although one fails; whether none did."""
    failed = False
    for step in steps:
        try:
            await step()
        except WindlassError as problem:
            failed = True
            _log.warning("history is not kept in order: again soon", error=str(problem))
    return not failed
