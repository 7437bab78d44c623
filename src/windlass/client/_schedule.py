"""When a job runs by itself, as code says it. The definition keeps it; triggers act on it."""

from dataclasses import dataclass
from datetime import timedelta

from windlass.model.durations import seconds


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression in a zone, or an interval."""

    cron: str | None = None
    timezone: str = "UTC"
    interval_seconds: float | None = None
    jitter_seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """The form stored in a definition."""
        kept: dict[str, object] = {"cron": self.cron, "timezone": self.timezone, "interval_seconds": self.interval_seconds}
        return {name: value for name, value in kept.items() if value is not None} | {"jitter_seconds": self.jitter_seconds}


def cron(expression: str, *, tz: str = "UTC", jitter: float | str | timedelta = 0) -> Schedule:
    """By the clock: `cron("0 2 * * *", tz="America/New_York")`."""
    return Schedule(cron=expression, timezone=tz, jitter_seconds=seconds(jitter))


def every(interval: float | str | timedelta, *, jitter: float | str | timedelta = 0) -> Schedule:
    """At an interval: `every("5m")`."""
    return Schedule(interval_seconds=seconds(interval), jitter_seconds=seconds(jitter))
