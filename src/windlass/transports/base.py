"""The one Protocol of the house: how a worker reaches the queue. PostgreSQL is one way, HTTP another.

A worker with another transport is the same worker. Every method may raise Disconnected, which means: try again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from windlass.model import ClaimedJob, EffectiveDefinition, Enqueued, Held, LogLine, NewJob, Settled, WorkerInfo


@dataclass(frozen=True, slots=True)
class Pulse:
    """The answer to a heartbeat: whether the worker still counts, which of the leases it asked to renew are
    lost, and which of its jobs somebody wants stopped (lease number → reason).
    """

    alive: bool
    lost: frozenset[int]
    cancels: Mapping[int, str]


class Transport(Protocol):
    """What a worker needs of the queue."""

    async def open(self, worker: WorkerInfo) -> None:
        """Join as this worker; refuses, loudly, if another of that name is alive."""
        ...

    async def close(self) -> None:
        """Leave. What is held must have been settled or released before."""
        ...

    async def definitions(self) -> Mapping[UUID, EffectiveDefinition]:
        """The definitions as they count now, by id."""
        ...

    async def claim(self, want: int, held: Collection[int]) -> list[ClaimedJob]:
        """Up to `want` jobs; none means that there is nothing to do now. `held` are the numbers of the leases that the
        worker holds: should the answer get lost, all others of its leases go back, unspent, before the next claim.
        """
        ...

    async def idle(self, longest: float) -> None:
        """Rest until there may be work, at most so many seconds."""
        ...

    def wake(self) -> None:
        """End a rest at once."""
        ...

    async def tenant_slug(self, tenant_id: UUID) -> str:
        """The tenant's name, as enqueue wants it."""
        ...

    async def settle(self, batch: Sequence[Settled]) -> set[int]:
        """Write these ends; answers the lease numbers still held when they were written."""
        ...

    async def release(self, held: Sequence[Held]) -> None:
        """Give jobs back that were not started."""
        ...

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Enqueue children of a running job."""
        ...

    async def ship(self, lines: Sequence[LogLine]) -> None:
        """Append what jobs said."""
        ...

    async def progress(self, said: Sequence[tuple[Held, float, str | None]]) -> None:
        """Note how far jobs say they are."""
        ...

    async def beat(self, running: int, rss_bytes: int, renew: Sequence[Held]) -> Pulse:
        """Say that the worker lives, and renew leases. Called from a thread and an event loop of its own, so
        that a blocked loop does not cost the lease: it shares nothing with the other methods.
        """
        ...

    async def rest_beat(self) -> None:
        """Let go of what `beat` holds; called in the same thread."""
        ...
