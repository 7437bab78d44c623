"""A job as code defines it: the decorated function, still callable, with ways to enqueue it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID

import typing_extensions

from windlass.client import _options as checked
from windlass.client._enqueue_on import enqueue_on
from windlass.client._handle import JobHandle
from windlass.client._options import Duration, JobOptions
from windlass.client._payload import SchemaPayload, SignaturePayload
from windlass.client._runs import Runs
from windlass.model import Definition, Enqueued, NewJob
from windlass.model.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
# How the function itself is called, and what it gives: a coroutine perhaps.
Call = typing_extensions.ParamSpec("Call", default=...)
Gives = typing_extensions.TypeVar("Gives", default=Any)


@dataclass(frozen=True, slots=True)
class Door:
    """What a defined job needs of its app."""

    store: Callable[[NewJob], Awaitable[Enqueued]]
    jobs: Callable[[], Awaitable[Runs]]


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
        return JobHandle(self._door.jobs, job.tenant, self._payload.result.read, await self._door.store(job))

    def enqueue_on(self, connection: Any, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue it inside the connection's transaction: it exists if and only if that commits. The handle must
        be awaited when the connection is asynchronous (asyncpg, psycopg's or SQLAlchemy's).
        """
        job = self.request(*args, **kwargs)
        became = enqueue_on(connection, job)
        if isinstance(became, Enqueued):
            return JobHandle(self._door.jobs, job.tenant, self._payload.result.read, became)
        return JobHandle(self._door.jobs, job.tenant, self._payload.result.read, pending=became)


class Job(Enqueuer[P, R], Generic[P, R, Call, Gives]):
    """A defined job. Calling it calls the function, with nothing of Windlass in between."""

    def __init__(
        self, door: Door, payload: SignaturePayload | SchemaPayload, definition: Definition,
        function: Callable[Call, Gives] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(door, payload, NewJob(definition.key))
        self.definition, self.payload, self.function = definition, payload, function
        self.__name__ = self.__qualname__ = definition.key
        self.__doc__ = definition.description or None

    def __call__(self, *args: Call.args, **kwargs: Call.kwargs) -> Gives:
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
        template = NewJob(
            self.key,
            tenant=tenant,
            priority=None if priority is None else checked.order(priority),
            delay=None if delay is None else checked.length(delay, "delay"),
            due_at=None if at is None else checked.moment(at),
            dedupe_key=None if dedupe_key is None else checked.short(dedupe_key, "dedupe_key"),
            dedupe_window=None if dedupe_window is None else checked.length(dedupe_window, "dedupe_window"),
            correlation_id=None if correlation_id is None else checked.short(correlation_id, "correlation_id"),
            depends_on=checked.parents(depends_on),
            max_attempts=None if max_attempts is None else checked.budget(max_attempts),
        )
        return Enqueuer(self._door, self._payload, template)


async def by_name(door: Door, key: str, payload: str, options: JobOptions) -> JobHandle[Any]:
    """Enqueue a job this app does not define, by its key; `payload` is checked JSON text."""
    bare: Job[..., Any] = Job(door, SchemaPayload(key, {}), Definition(key))
    enqueuer = bare.options(**options)
    job = enqueuer.template.with_payload(payload)
    return JobHandle(door.jobs, job.tenant, bare.payload.result.read, await door.store(job))
