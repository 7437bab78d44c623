"""A job as code defines it: the decorated function, still callable, with ways to enqueue it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID

from windlass.client._enqueue_on import enqueue_on
from windlass.client._handle import JobHandle
from windlass.client._jobs import Jobs
from windlass.client._payload import SchemaPayload, SignaturePayload
from windlass.model import Definition, Enqueued, NewJob
from windlass.model.durations import seconds
from windlass.model.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
Duration = float | str | timedelta


@dataclass(frozen=True, slots=True)
class Door:
    """What a defined job needs of its app."""

    store: Callable[[NewJob], Awaitable[Enqueued]]
    jobs: Callable[[], Awaitable[Jobs]]


class Enqueuer(Generic[P, R]):
    """Enqueues one kind of job, with the options chosen so far."""

    def __init__(self, door: Door, payload: SignaturePayload | SchemaPayload, template: NewJob) -> None:
        self._door, self._payload, self.template = door, payload, template

    def request(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The job to be, its payload checked: for `app.enqueue_many` and `ctx.enqueue`."""
        return self.template.with_payload(self._payload.encode(args, kwargs))

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue it. Raises BadPayload, naming each path that does not fit."""
        job = self.request(*args, **kwargs)
        return JobHandle(self._door.jobs, job.tenant, await self._door.store(job))

    def enqueue_on(self, connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue it inside the connection's transaction: it exists if and only if that commits. The handle must
        be awaited when the connection is asynchronous (asyncpg, psycopg's or SQLAlchemy's).
        """
        job = self.request(*args, **kwargs)
        became = enqueue_on(connection, job)
        if isinstance(became, Enqueued):
            return JobHandle(self._door.jobs, job.tenant, became)
        return JobHandle(self._door.jobs, job.tenant, pending=became)


class Job(Enqueuer[P, R]):
    """A defined job. Calling it calls the function, with nothing of Windlass in between."""

    def __init__(
        self, door: Door, payload: SignaturePayload | SchemaPayload, definition: Definition,
        function: Callable[..., object] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(door, payload, NewJob(definition.key))
        self.definition, self.payload, self.function = definition, payload, function
        self.__name__ = self.__qualname__ = definition.key
        self.__doc__ = definition.description or None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function."""
        if self.function is None:
            msg = f"{self.key!r} is a command: it can be enqueued, not called."
            raise UsageError(msg)
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.definition.kind} {self.key}>"

    @property
    def key(self) -> str:
        """The name it is known by everywhere."""
        return self.definition.key

    def options(
        self,
        *,
        tenant: str = "default",
        priority: int | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        dedupe_key: str | None = None,
        dedupe_window: Duration | None = None,
        correlation_id: str | None = None,
        depends_on: Sequence[UUID | JobHandle[Any]] = (),
        max_attempts: int | None = None,
    ) -> Enqueuer[P, R]:
        """The same job, enqueued otherwise: `send.options(delay="5m").enqueue(…)`."""
        if at is not None and at.tzinfo is None:
            msg = f"`at` needs a time zone, since {at} is another moment in each: use datetime(…, tzinfo=…)."
            raise UsageError(msg)
        template = NewJob(
            self.key,
            tenant=tenant,
            priority=_priority(priority),
            delay=None if delay is None else seconds(delay),
            due_at=at,
            dedupe_key=_short(dedupe_key, "dedupe_key"),
            dedupe_window=None if dedupe_window is None else seconds(dedupe_window),
            correlation_id=_short(correlation_id, "correlation_id"),
            depends_on=tuple(parent.id if isinstance(parent, JobHandle) else parent for parent in depends_on),
            max_attempts=_attempts(max_attempts),
        )
        return Enqueuer(self._door, self._payload, template)


def by_name(door: Door, key: str, payload: str, options: Mapping[str, Any]) -> Callable[[], Awaitable[JobHandle[Any]]]:
    """Enqueue a job this app does not define, by its key; `payload` is checked JSON text."""
    bare: Job[..., Any] = Job(door, SchemaPayload(key, {}), Definition(key))
    job = bare.options(**options).template.with_payload(payload)

    async def enqueue() -> JobHandle[Any]:
        return JobHandle(door.jobs, job.tenant, await door.store(job))

    return enqueue


def _priority(priority: int | None) -> int | None:
    if priority is not None and not -(2**31) < priority < 2**31:
        msg = f"priority is {priority}: it must be a 32-bit number; lower runs first, 100 is the default."
        raise UsageError(msg)
    return priority


def _attempts(count: int | None) -> int | None:
    if count is not None and not 1 <= count <= 32767:  # noqa: PLR2004
        msg = f"max_attempts is {count}: it must be from 1 to 32767."
        raise UsageError(msg)
    return count


def _short(text: str | None, what: str) -> str | None:
    if text is not None and (not 1 <= len(text) <= 500 or "\x00" in text):  # noqa: PLR2004
        msg = f"{what} must have 1 to 500 characters and no NUL."
        raise UsageError(msg)
    return text
