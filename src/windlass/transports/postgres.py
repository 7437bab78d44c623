"""Straight to PostgreSQL: the default, and the fastest."""

import asyncio
import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

import structlog

from windlass import engine, logs
from windlass.db import MISSED, Database
from windlass.model import ClaimedJob, EffectiveDefinition, Enqueued, Held, LogLine, NewJob, Settled, WorkerInfo
from windlass.model.errors import Conflict, WindlassError
from windlass.transports.base import Pulse
from windlass.transports.birth import is_dead

_log = structlog.get_logger("windlass.transports.postgres")

_BUSY_AFTER = 0.05  # claims that found work for so long: no need to be woken
_STORM, _STORM_SECONDS, _STORM_POLL = 100, 0.1, 0.002
_NAMESAKE_PATIENCE = 7.0  # two heartbeats, and a little
_CHILDREN = 4  # connections for the enqueues of running jobs


class PostgresTransport:
    """One worker's way to the queue. `database` must be pinned; `hear` is to be called with each notification. With `follow`
    it looks at the queues that what is handled goes to by now, besides those given.
    """

    def __init__(
        self, database: Database, queues: Sequence[str], handled: Sequence[str], *,
        lease_seconds: float = engine.LEASE_SECONDS, follow: bool = False,
    ) -> None:  # fmt: skip
        self._database = database
        # An enqueue waits for whoever holds its dedupe key: as many as there are lines must not keep the worker from its own.
        self._children = database.beside(_CHILDREN)
        self._queues, self._handled = list(queues), frozenset(handled)
        self._lease, self._follow = lease_seconds, follow
        self._worker: WorkerInfo | None = None
        self._claims: list[engine.Claim] = []
        self._only: list[UUID] | None = None
        self._heard: set[int] | None = None
        self._woken = asyncio.Event()
        self._listening = False
        self._found_since: float | None = None
        self._wakes, self._wakes_since, self._storm_until = 0, 0.0, 0.0
        self._beat_database: Database | None = None
        self._slugs: dict[UUID, str] = {}

    async def open(self, worker: WorkerInfo) -> None:
        """Join as this worker; take over at once from one of the same name that is dead."""
        while not await engine.workers.join(self._database, worker):
            await self._take_over(worker)
        self._worker = worker
        await self._look_at(self._queues)

    async def close(self) -> None:
        """Leave, noting that all is as it should be."""
        if self._worker is not None:
            await self._give_back_unheard()
            await engine.workers.leave(self._database, self._worker.id)

    async def definitions(self) -> Mapping[UUID, EffectiveDefinition]:
        """The definitions as they count now, by id."""
        found = await engine.registry.effective(self._database)
        mine = {UUID(d.id): d for d in found.values() if d.key in self._handled}
        # A claim must pick only if there may be jobs that this worker cannot do. In which queue they are nobody knows: they
        # may have been enqueued before their definition's queue was changed.
        self._only = list(mine) if len(mine) < len(found) else None
        if self._follow and (new := sorted({d.queue for d in mine.values()}.difference(self._queues))):
            await engine.workers.poll(self._database, self._me, [*self._queues, *new])
            await self._look_at(new)
            self._queues += new
        return mine

    async def claim(self, want: int, held: Collection[int]) -> list[ClaimedJob]:
        """Up to `want` jobs, from each queue in turn."""
        await self._give_back_unheard()
        taken: list[ClaimedJob] = []
        try:
            for claim in self._claims:
                if len(taken) < want:
                    taken += await claim.take(self._database, want - len(taken), self._only)
        except WindlassError:
            self._heard = {*held, *(job.lease for job in taken)}
            if not taken:
                raise
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
            self._woken.clear()
            await engine.workers.listen(self._database, self._me, [claim.queue_id for claim in self._claims])
            self._listening = True
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
        if payload == MISSED:
            self._listening = False  # the database may have come back from a crash without knowing of it
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
        return await engine.enqueue(self._children, jobs)

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
            with contextlib.suppress(WindlassError):  # what was claimed is not to be lost for this
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

    async def _look_at(self, queues: Sequence[str]) -> None:
        ids = await engine.registry.queue_ids(self._database, queues)
        self._claims += [engine.Claim(ids[name], self._me, self._lease) for name in queues]
        self._listening = False

    async def _give_back_unheard(self) -> None:
        """A claim that broke may have happened all the same: its jobs are those that had not been heard of by then. They would
        wait until their leases run out, and have spent an attempt.
        """
        if self._heard is None:
            return
        if count := await engine.workers.give_back_unheld(self._database, self._me, self._heard):
            _log.info("gave back what was claimed unheard", jobs=count)
        self._heard = None

    async def _take_over(self, worker: WorkerInfo) -> None:
        other = await engine.workers.namesake(self._database, worker.name)
        if other is None:
            return
        if not await self._is_dead(other):
            msg = (
                f"A worker named {worker.name!r} is alive (host {other.hostname}, pid {other.pid}). "
                "Names must be unique: give this one another --name, or stop that one."
            )
            raise Conflict(msg, "alive")
        lost = await engine.workers.replace(self._database, other.id)
        _log.info("took over from a dead worker of the same name", name=worker.name, jobs_taken_back=lost)

    async def _is_dead(self, other: engine.workers.Namesake) -> bool:
        """Where its process can be seen from here, that tells; else heartbeats that no longer come."""
        seen = is_dead(other.birth, other.pid)
        if seen is not None:
            return seen
        deadline = time.monotonic() + _NAMESAKE_PATIENCE
        while time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            now = await engine.workers.namesake(self._database, other.name)
            if now is None or now.id != other.id:
                return True
            if now.last_seen_at > other.last_seen_at:
                return False
        return True
