"""What can be said of a job where it is defined, and where it is enqueued; checked where it is written."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar, cast
from uuid import UUID

from windlass.client._handle import JobHandle
from windlass.client._schedule import Schedule
from windlass.model import Backoff, Definition
from windlass.model.durations import seconds
from windlass.model.errors import UsageError
from windlass.model.names import check_queue

T = TypeVar("T")
Duration = float | str | timedelta
_INT, _ATTEMPTS, _LONGEST_TEXT = 2**31 - 1, 32767, 500


class DefinitionOptions(TypedDict, total=False):
    """The options of `app.job(…)` that a command has, too."""

    queue: str
    priority: int
    max_attempts: int
    timeout: Duration | None
    backoff: Backoff | None
    dedupe_window: Duration
    max_running: int | None
    concurrency: Mapping[str, object] | Sequence[Mapping[str, object]]
    rate: Mapping[str, object] | None
    schedule: Schedule | None
    retention_days: int | None
    retention_count: int | None
    tags: Sequence[str]
    description: str


class JobOptions(TypedDict, total=False):
    """The options of `job.options(…)` that can be given by name, too."""

    tenant: str
    priority: int | None
    delay: Duration | None
    at: datetime | None
    dedupe_key: str | None
    dedupe_window: Duration | None
    correlation_id: str | None
    depends_on: Sequence[UUID | JobHandle[Any]]
    max_attempts: int | None


def definition(
    *,
    key: str = "",
    queue: str = "default",
    priority: int = 100,
    max_attempts: int = 3,
    timeout: Duration | None = 3600,
    backoff: Backoff | None = None,
    dedupe_window: Duration = 0,
    max_running: int | None = None,
    concurrency: Mapping[str, object] | Sequence[Mapping[str, object]] = (),
    rate: Mapping[str, object] | None = None,
    schedule: Schedule | None = None,
    retention_days: int | None = None,
    retention_count: int | None = None,
    tags: Sequence[str] = (),
    description: str = "",
) -> Definition:
    """A definition as its options say it; raises UsageError for what it could not be run with."""
    clock = _made(Schedule, schedule, "schedule", 'cron("0 2 * * *") or every("5m")')
    return Definition(
        key,
        description=description,
        queue=check_queue(queue),
        priority=order(priority),
        max_attempts=budget(max_attempts),
        timeout_seconds=None if timeout is None else _timeout(timeout),
        backoff=_made(Backoff, backoff, "backoff", 'backoff.exponential("10s") or backoff.fixed("10s")') or Backoff(),
        dedupe_window_seconds=int(length(dedupe_window, "dedupe_window")),
        max_running=None if max_running is None else _whole(max_running, "max_running"),
        concurrency=_limits(concurrency),
        rate=None if rate is None else _mapping(rate, "rate", '{"count": 10, "per_seconds": 60}'),
        schedule=clock.as_dict() if clock else None,
        retention_days=None if retention_days is None else _whole(retention_days, "retention_days"),
        retention_count=None if retention_count is None else _whole(retention_count, "retention_count"),
        tags=_tags(tags),
    )


def order(priority: object) -> int:
    """A place among a tenant's jobs."""
    return _whole(priority, "priority", least=-_INT)


def budget(attempts: object) -> int:
    """How often a job may be tried."""
    return _whole(attempts, "max_attempts", most=_ATTEMPTS)


def length(duration: object, what: str) -> float:
    """A stretch of time, in seconds."""
    if not isinstance(duration, int | float | str | timedelta):
        msg = f'{what} is {duration!r}: write seconds, a timedelta, or "90s", "5m", "1h30m".'
        raise UsageError(msg)
    return seconds(duration)


def moment(at: object) -> datetime:
    """A moment that is the same everywhere."""
    if not isinstance(at, datetime):
        msg = f"`at` is {at!r}: it must be a datetime with a time zone."
        raise UsageError(msg)
    if at.tzinfo is None:
        msg = f"`at` needs a time zone, since {at} is another moment in each: use datetime(…, tzinfo=…)."
        raise UsageError(msg)
    return at


def short(text: object, what: str) -> str:
    """Text that jobs are found by."""
    if not isinstance(text, str) or not 1 <= len(text) <= _LONGEST_TEXT or "\x00" in text:
        msg = f"{what} must be text of 1 to {_LONGEST_TEXT} characters and no NUL."
        raise UsageError(msg)
    return text


def parents(jobs: object) -> tuple[UUID, ...]:
    """The ids of jobs that must succeed before."""
    ids = [job.id if isinstance(job, JobHandle) else job for job in _several(jobs, "depends_on")]
    if wrong := [told for told in ids if not isinstance(told, UUID)]:
        msg = f"depends_on has {wrong[0]!r}: it takes jobs as they were enqueued, or their ids as UUID."
        raise UsageError(msg)
    return tuple(cast("list[UUID]", ids))


def _whole(number: object, what: str, *, least: int = 1, most: int = _INT) -> int:
    if not isinstance(number, int) or not least <= number <= most:
        msg = f"{what} is {number!r}: it must be a whole number from {least} to {most}."
        raise UsageError(msg)
    return number


def _timeout(duration: object) -> float:
    if (told := length(duration, "timeout")) <= 0:
        msg = f"timeout is {duration!r}: it must be longer than that; None is no timeout."
        raise UsageError(msg)
    return told


def _made(kind: type[T], value: object, what: str, by: str) -> T | None:
    if value is not None and not isinstance(value, kind):
        msg = f"{what} is {value!r}: it is made by {by}."
        raise UsageError(msg)
    return value


def _limits(told: object) -> tuple[dict[str, object], ...]:
    limits = [cast("object", told)] if isinstance(told, Mapping) else _several(told, "concurrency")
    return tuple(_mapping(limit, "concurrency", '{"key": "provider:{provider_id}", "max": 1}') for limit in limits)


def _mapping(told: object, what: str, like: str) -> dict[str, object]:
    if not isinstance(told, Mapping):
        msg = f"{what} is {told!r}: write it like {like}."
        raise UsageError(msg)
    return dict(cast("Mapping[str, object]", told))


def _tags(told: object) -> tuple[str, ...]:
    return tuple(short(tag, "a tag") for tag in _several(told, "tags"))


def _several(told: object, what: str) -> list[object]:
    if isinstance(told, str) or not isinstance(told, Sequence):
        msg = f"{what} is {told!r}: it must be a list."
        raise UsageError(msg)
    return list(cast("Sequence[object]", told))
