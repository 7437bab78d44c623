"""The one table of what is measured, in order, and what is wanted of it (DESIGN §19)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from windlass.bench._drains import drain_1, drain_2, drain_tenants
from windlass.bench._enqueues import enqueue_bulk, enqueue_concurrent, enqueue_single
from windlass.bench._ground import Ground
from windlass.bench._history import drain_history
from windlass.bench._latency import latency
from windlass.bench._memory import worker_rss_mb
from windlass.bench._result import Result
from windlass.bench._snapshot import drain_held_snapshot


@dataclass(frozen=True, slots=True)
class Bound:
    """What one figure of a line should at least, or at most, be."""

    figure: str
    words: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def wanted(self) -> str:
        """The bound as it is written."""
        return f"≥ {self.at_least:,g}" if self.at_least is not None else f"≤ {self.at_most:,g}"

    def met(self, result: Result) -> bool | None:
        """Whether it is; None when the figure could not be taken."""
        value = result.figures.get(self.figure)
        if not isinstance(value, float | int):
            return None
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True)
class Line:
    """One measurement and its bounds."""

    measure: Callable[[Ground], Awaitable[Result]]
    bounds: tuple[Bound, ...] = ()

    @property
    def target(self) -> str:
        """All bounds in words."""
        return ", ".join(f"{bound.figure} {bound.wanted}" for bound in self.bounds)

    def met(self, result: Result) -> bool | None:
        """Whether all are met; None when nothing is wanted, or it could not be measured."""
        said = [bound.met(result) for bound in self.bounds]
        return None if not said or None in said else all(said)


LINES = {
    "drain_1": Line(drain_1, (Bound("ratio", "of ceiling", at_least=0.6),)),
    "drain_2": Line(drain_2),
    "drain_tenants": Line(drain_tenants, (Bound("ratio_to_drain_1", "of drain_1", at_least=0.7),)),
    "drain_history": Line(drain_history, (Bound("ratio_to_drain_1", "of drain_1", at_least=0.95),)),
    "drain_held_snapshot": Line(
        drain_held_snapshot,
        (Bound("ratio_to_free", "of free", at_least=0.85), Bound("flat", "last/first quarter", at_least=0.9)),
    ),
    "enqueue_single": Line(enqueue_single, (Bound("ratio", "of ceiling", at_least=0.7),)),
    "enqueue_concurrent": Line(enqueue_concurrent, (Bound("per_s", "/s", at_least=25_000),)),
    "enqueue_bulk": Line(enqueue_bulk, (Bound("per_s", "/s", at_least=100_000),)),
    "latency": Line(latency, (Bound("p50_ms", "p50", at_most=1.5), Bound("p99_ms", "p99", at_most=4.0))),
    "worker_rss_mb": Line(worker_rss_mb, (Bound("mb", "MB", at_most=80.0),)),
}
