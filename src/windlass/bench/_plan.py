"""What to measure, and on how much. Nothing is imported here, so that `--help` is quick."""

from dataclasses import dataclass

# In the order in which they are shown.
NAMES = (
    "drain_1", "drain_2", "drain_tenants", "drain_history", "drain_held_snapshot",
    "enqueue_single", "enqueue_concurrent", "enqueue_bulk", "latency", "worker_rss_mb",
)  # fmt: skip
# What is measured by single moments runs first: it would be disturbed by what the others leave for the disk to write.
_QUIET = ("latency", "worker_rss_mb", "enqueue_single", "enqueue_concurrent")


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run."""

    jobs: int = 100_000
    tenants: int = 1_000
    history: int = 1_000_000
    hold_seconds: float = 20.0
    rounds: int = 5
    only: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The lines to measure."""
        return tuple(name for name in NAMES if not self.only or name in self.only)

    @property
    def order(self) -> tuple[str, ...]:
        """The lines in the order in which they run."""
        return tuple(sorted(self.names, key=lambda name: name not in _QUIET))

    @property
    def ceiling_jobs(self) -> int:
        """How many jobs a round of the ceiling claims and settles: it needs no more for a steady rate."""
        return min(self.jobs, 50_000)

    @property
    def turns(self) -> int:
        """How often enqueues and their ceiling take turns: a commit is at the mercy of the disk, so often."""
        return self.rounds * 5

    @property
    def singles(self) -> int:
        """How many inserts, or enqueues, are awaited one by one in a turn."""
        return max(self.jobs // 200, 25)

    @property
    def together(self) -> int:
        """How many enqueues are awaited fifty at a time in a turn."""
        return max(self.jobs // 40, 250)
