"""Whose turn it is in one queue, and from which position on. Pure: rows and elapsed seconds in, a plan out.

Tenants with work take turns, weighted. Each claim starts at the head of a tenant's queue, unless that turns
out to be slow: then a held snapshot keeps dead entries there, and claims start where the last one ended. What
comes up behind that position (late commits, retries, better priorities) is found by a claim from the head,
which is then made only as often as its cost allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from windlass.model import ClaimedJob

HEAD = (-(2**31), UUID(int=0))
_TENANTS_PER_CLAIM = 125
_LEAST_TURN = 4
# A slow walk from the head may take one part in so many of the time, while there is work and while there is none.
_SHARE_BUSY, _SHARE_IDLE = 30, 3
_DISCOVER_EVERY, _DISCOVER_SHARE = 0.02, 20
_GUESSES = 8
# Claims of so many jobs tell what one costs; every so often one of them starts elsewhere to tell it of there.
_TELLING, _TELL_EVERY, _MEMORY = 100, 20, 4
_ROUND_TRIP, _PER_JOB, _SLACK = 0.004, 0.00002, 1.5


@dataclass(slots=True)
class _Turn:
    tenant: UUID
    weight: int
    priority: int = HEAD[0]
    job_id: UUID = HEAD[1]


class _Head:
    """What it costs to start at the head instead of where the last claim ended, and so how often it may be done.

    Both are measured while there is much to claim: most claims start at the head, and now and then one elsewhere.
    A slow one alone proves nothing (a statement is planned at its first use, a machine is busy), so it takes two.
    """

    def __init__(self) -> None:
        self.allowed_at = 0.0
        self._elsewhere = _PER_JOB
        self._told = _TELL_EVERY
        self._slow = 0
        self._cost = 0.0
        self._ended = 0.0

    def is_allowed(self, now: float) -> bool:
        """Whether the next claim may start there."""
        return now >= self.allowed_at and self._told < _TELL_EVERY

    def learn(self, *, from_head: bool, found: int, now: float, took: float) -> None:
        """Take in one claim."""
        if from_head:
            self._told += found >= _TELLING
            usual = self._elsewhere * found
            self._slow = self._slow + 1 if took > max(usual * _SLACK, _ROUND_TRIP) else 0
            self._cost, self._ended = (took - usual if self._slow > 1 else 0.0), now
        else:
            self._told = 0
            if found >= _TELLING:
                self._elsewhere += (took / found - self._elsewhere) / _MEMORY
        self.allowed_at = self._ended + self._cost * (_SHARE_BUSY if found else _SHARE_IDLE)


class Plan(NamedTuple):
    """The arrays that claim.sql takes, and whether they start at the head."""

    tenants: list[UUID]
    priorities: list[int]
    job_ids: list[UUID]
    shares: list[int]
    from_head: bool


class Page(NamedTuple):
    """Tenants with work and their weights, found by a look that began after a tenant; `full` if there may be more."""

    after: UUID
    tenants: Sequence[tuple[UUID, int]]
    full: bool


class Turns:
    """One worker's view of one queue. Tenants are looked at a page at a time, and once all of a page had their turn the
    next page is looked at, so that it costs nothing how many there are and nobody is left out.
    """

    def __init__(self) -> None:
        self._known: dict[UUID, _Turn] = {}
        self._order: list[UUID] = []
        self._guesses: list[UUID] = []
        self._page = Page(HEAD[1], [], full=False)
        self._next: int = 0
        self._had: int = 0
        self._head = _Head()
        self._discover_at = 0.0

    def must_discover(self, now: float) -> bool:
        """Whether it is time to look which tenants have work."""
        return now >= self._discover_at

    @property
    def knows_none(self) -> bool:
        """Whether there is no tenant yet whose jobs could be asked for."""
        return not self._order and not self._guesses

    @property
    def look_after(self) -> UUID:
        """After which tenant the next look begins: the same page again, unless all of it had their turn."""
        if self._had < len(self._order):
            return self._page.after
        return self._order[-1] if self._page.full else HEAD[1]

    def discovered(self, page: Page, now: float, took: float) -> None:
        """Take in which tenants have work, with their weights."""
        self._discover_at = now + max(_DISCOVER_EVERY, took * _DISCOVER_SHARE)
        for tenant, weight in page.tenants:
            self._known.setdefault(tenant, _Turn(tenant, weight)).weight = weight
        self._guesses = self._order[:_GUESSES] or self._guesses
        upcoming = self._order[self._next] if self._order else HEAD[1]
        self._order = [tenant for tenant, _ in page.tenants]
        self._next = self._order.index(upcoming) if upcoming in self._order else 0
        self._had = self._had if page.after == self._page.after else 0
        self._page = page
        if len(self._known) > 4 * len(self._order) + 1000:
            self._known = {tenant: self._known[tenant] for tenant in [*self._order, *self._guesses]}

    def plan(self, want: int, now: float) -> Plan:
        """Whose jobs to take now, and how many of each."""
        turns = self._chosen(want)
        from_head = self._head.is_allowed(now)
        starts = [HEAD if from_head else (turn.priority, turn.job_id) for turn in turns]
        return Plan(
            [turn.tenant for turn in turns],
            [priority for priority, _ in starts],
            [job_id for _, job_id in starts],
            _shares(want, [turn.weight for turn in turns]),
            from_head,
        )

    def claimed(self, plan: Plan, want: int, rows: Sequence[ClaimedJob], now: float, took: float) -> None:
        """Learn from a claim: positions, whose turn is next, and whether the head is slow."""
        taken: dict[UUID, ClaimedJob] = {}
        for row in rows:
            best = taken.get(row.tenant_id)
            if best is None or (row.priority, row.id) > (best.priority, best.id):
                taken[row.tenant_id] = row
        for tenant, row in taken.items():
            turn = self._known[tenant]
            turn.priority, turn.job_id = row.priority, row.id
        self._head.learn(from_head=plan.from_head, found=len(rows), now=now, took=took)
        self._advance(len(plan.tenants) if len(rows) < want else _last_served(plan, taken))

    def may_rest(self, now: float) -> float:
        """How long until the head should be looked at again; 0 when it just was."""
        return max(self._head.allowed_at - now, 0.0)

    def _chosen(self, want: int) -> list[_Turn]:
        if not self._order:
            return [self._known[tenant] for tenant in self._guesses]
        count = min(len(self._order), max(want // _LEAST_TURN, 1), _TENANTS_PER_CLAIM)
        around = (self._order + self._order)[self._next : self._next + count]
        return [self._known[tenant] for tenant in around]

    def _advance(self, served: int) -> None:
        if self._order:
            self._next = (self._next + served) % len(self._order)
            self._had += served


def _last_served(plan: Plan, taken: dict[UUID, ClaimedJob]) -> int:
    """How many turns were had before the limit cut the rest off."""
    return max((index + 1 for index, tenant in enumerate(plan.tenants) if tenant in taken), default=0)


def _shares(want: int, weights: Sequence[int]) -> list[int]:
    """`want` jobs dealt out by weight, at least one each; what is left over goes to the first."""
    if not weights:
        return []
    total = sum(weights)
    shares = [max(want * weight // total, 1) for weight in weights]
    left = want - sum(shares)
    for index in range(max(left, 0)):
        shares[index % len(shares)] += 1
    return shares
