"""Straight to PostgreSQL: the default, and the fastest."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from uuid import UUID

import structlog

from windlass import engine, logs
from windlass.db import MISSED, Database
from windlass.model import ClaimedJob, EffectiveDefinition, Enqueued, Held, LogLine, NewJob, Settled, WorkerInfo
from windlass.model.errors import Conflict
from windlass.transports.base import Pulse

_log = structlog.get_logger("windlass.transports.postgres")

_BUSY_AFTER = 0.05  # claims that found work for so long: no need to be woken
_STORM, _STORM_SECONDS, _STORM_POLL = 100, 0.1, 0.002
_NAMESAKE_PATIENCE = 7.0


class PostgresTransport:
    """One worker's way to the queue. `database` must be pinned; `hear` is to be called with each notification."""

    def __init__(
        self, database: Database, queues: Sequence[str], handled: Sequence[str], *, lease_seconds: float = engine.LEASE_SECONDS
    ) -> None:
        self._database = database
        self._queues, self._handled = queues, frozenset(handled)
        self._lease = lease_seconds
        self._worker: WorkerInfo | None = None
        self._claims: list[engine.Claim] = []
        self._only: list[UUID] | None = None
        self._woken = asyncio.Event()
        self._listening = False
        self._found_since: float | None = None
        self._wakes, self._wakes_since, self._storm_until = 0, 0.0, 0.0
        self._beat_database: Database | None = None
        self._slugs: dict[UUID, str] = {}

    async def open(self, worker: WorkerInfo) -> None:
        """Join as this worker; take over at once from one of the same name that is dead."""
        await self._take_over(worker)
        await engine.workers.join(self._database, worker)
        ids = await engine.registry.queue_ids(self._database, self._queues)
        self._claims = [engine.Claim(ids[name], worker.id, self._lease) for name in self._queues]
        self._worker = worker

    async def close(self) -> None:
        """Leave, noting that all is as it should be."""
        if self._worker is not None:
            await engine.workers.leave(self._database, self._worker.id)

    async def definitions(self) -> Mapping[UUID, EffectiveDefinition]:
        """The definitions as they count now, by id."""
        found = await engine.registry.effective(self._database)
        mine = {UUID(d.id): d for d in found.values() if d.key in self._handled}
        strangers = [d.key for d in found.values() if d.key not in self._handled and d.queue in self._queues]
        # Only when a queue holds jobs that this worker cannot do must a claim pick among them.
        self._only = list(mine) if strangers else None
        return mine

    async def claim(self, want: int) -> list[ClaimedJob]:
        """Up to `want` jobs, from each queue in turn."""
        taken: list[ClaimedJob] = []
        for claim in self._claims:
            if len(taken) < want:
                taken += await claim.take(self._database, want - len(taken), self._only)
        if len(self._claims) > 1:
            self._claims.append(self._claims.pop(0))
        await self._note(found=bool(taken))
        return taken

    async def idle(self, longest: float) -> None:
        """Rest until woken. The first rest only asks to be woken, so that what came just before is not missed."""
        if time.monotonic() < self._storm_until:
            await self._stop_listening()
            await asyncio.sleep(_STORM_POLL)
            return
        if not self._listening:
            self._listening = True
            self._woken.clear()
            await engine.workers.listen(self._database, self._me, [claim.queue_id for claim in self._claims])
            return
        rest = min((c.rest() or longest for c in self._claims), default=longest)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), min(rest, longest))
        self._woken.clear()

    def wake(self) -> None:
        """End a rest at once."""
        self._woken.set()

    async def tenant_slug(self, tenant_id: UUID) -> str:
        """The tenant's slug; it never changes, so it is asked for once."""
        if tenant_id not in self._slugs:
            self._slugs[tenant_id] = await engine.reads.tenant_slug(self._database, tenant_id)
        return self._slugs[tenant_id]

    def hear(self, payload: str) -> None:
        """A notification: a hint that there may be work."""
        if payload == MISSED or payload in {f"queue:{claim.queue_id}" for claim in self._claims}:
            self._woken.set()
            self._count_wake()

    async def settle(self, batch: Sequence[Settled]) -> set[int]:
        """Write these ends."""
        return await engine.settle(self._database, self._me, batch)

    async def release(self, held: Sequence[Held]) -> None:
        """Give jobs back."""
        await engine.release(self._database, self._me, held)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Enqueue children."""
        return await engine.enqueue(self._database, jobs)

    async def ship(self, lines: Sequence[LogLine]) -> None:
        """Append what jobs said."""
        await logs.append(self._database, lines)

    async def progress(self, said: Sequence[tuple[Held, float, str | None]]) -> None:
        """Note how far jobs say they are."""
        await engine.progress(self._database, self._me, said)

    async def beat(self, running: int, rss_bytes: int, renew: Sequence[Held]) -> Pulse:
        """A heartbeat, on a connection of its own."""
        if self._beat_database is None:
            self._beat_database = await Database.open(self._database.url, size=1, pinned=True)
        database = self._beat_database
        alive = await engine.workers.beat(database, self._me, running, rss_bytes)
        held = await engine.extend(database, self._me, renew, self._lease) if renew else set[int]()
        cancels = {no: reason for _, no, reason in await engine.workers.to_cancel(database, self._me)}
        return Pulse(alive, frozenset(h.lease for h in renew if h.lease not in held), cancels)

    async def rest_beat(self) -> None:
        """Close the heartbeat's connection."""
        if self._beat_database is not None:
            await self._beat_database.close()

    @property
    def _me(self) -> UUID:
        assert self._worker is not None
        return self._worker.id

    async def _note(self, *, found: bool) -> None:
        """A worker that keeps finding work looks by itself; enqueuers then need not pay for waking it."""
        now = time.monotonic()
        if not found:
            self._found_since = None
        elif self._found_since is None:
            self._found_since = now
        elif now - self._found_since > _BUSY_AFTER:
            await self._stop_listening()

    def _count_wake(self) -> None:
        """Woken a thousand times a second, polling is cheaper for all: every NOTIFY takes a global lock."""
        now = time.monotonic()
        if now - self._wakes_since > _STORM_SECONDS:
            self._wakes, self._wakes_since = 0, now
        self._wakes += 1
        if self._wakes == _STORM:
            self._storm_until = now + 1.0

    async def _stop_listening(self) -> None:
        if self._listening:
            self._listening = False
            await engine.workers.unlisten(self._database, self._me)

    async def _take_over(self, worker: WorkerInfo) -> None:
        for other in await engine.workers.namesakes(self._database, worker.name):
            if not await self._is_dead(other):
                msg = (
                    f"A worker named {worker.name!r} is alive (host {other.hostname}, pid {other.pid}). "
                    "Names must be unique: give this one another --name, or stop that one."
                )
                raise Conflict(msg, "alive")
            lost = await engine.workers.replace(self._database, other.id)
            _log.info("took over from a dead worker of the same name", name=worker.name, jobs_taken_back=lost)

    async def _is_dead(self, other: engine.workers.WorkerView) -> bool:
        """On this host the process itself tells; on another, heartbeats that no longer come."""
        if other.hostname == socket.gethostname():
            return not _runs(other.pid)
        deadline = time.monotonic() + _NAMESAKE_PATIENCE
        while time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            now = [w for w in await engine.workers.namesakes(self._database, other.name) if w.id == other.id]
            if not now:
                return True
            if now[0].last_seen_at > other.last_seen_at:
                return False
        return True


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
