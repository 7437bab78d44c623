"""The app: what a product defines its jobs on, and enqueues them through."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from windlass import engine
from windlass.client._definition import Door, Job, by_name
from windlass.client._handle import JobHandle
from windlass.client._jobs import Jobs
from windlass.client._options import DefinitionOptions, Duration, JobOptions, definition
from windlass.client._payload import SchemaPayload, SignaturePayload
from windlass.client._schedule import Schedule
from windlass.db import Database, embedded, migrate
from windlass.model import Backoff, Definition, Enqueued, NewJob
from windlass.model.argv import check_template
from windlass.model.errors import NotConfigured, UsageError
from windlass.model.names import check_key
from windlass.model.storable import encode
from windlass.settings import Settings, load_settings
from windlass.worker import Handler, Handlers, JobContext
from windlass.worker.handlers import Executor

P = ParamSpec("P")
R = TypeVar("R")
Coro = Coroutine[Any, Any, R]


class JobDecorator:
    """`@app.job(…)`: see `Windlass.job`."""

    def __init__(self, add: Callable[..., Job[..., Any]], template: Definition, *, process: bool) -> None:
        self._add, self._template, self._process = add, template, process

    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], Coro[R]], /
    ) -> Job[P, R, Concatenate[JobContext, P], Coro[R]]: ...
    @overload
    def __call__(self, function: Callable[P, Coro[R]], /) -> Job[P, R, P, Coro[R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], R], /) -> Job[P, R, Concatenate[JobContext, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Job[P, R, P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Job[..., Any]:
        key = self._template.key or function.__name__
        described = self._template.description or inspect.getdoc(function) or ""
        return self._add(function, replace(self._template, key=key, description=described), process=self._process)


class Windlass:
    """Defines jobs and enqueues them. Without a URL it is WINDLASS_DATABASE_URL, else the embedded database.

    Open it with `async with app:`, or `await app.open()` and `app.close()` in a web framework's lifespan; the
    first enqueue opens it otherwise.
    """

    def __init__(self, database_url: str | None = None, *, name: str | None = None, pool_size: int = 10) -> None:
        self.handlers = Handlers()
        self.name = name or _caller()
        self._url, self._pool_size = database_url, pool_size
        self._database: Database | None = None
        self._opening = asyncio.Lock()
        self._grouping = engine.Grouping(self._opened)
        self._door = Door(self._store, self._open_jobs)

    # -- defining ----------------------------------------------------------------------------------------

    @overload
    def job(
        self, function: Callable[Concatenate[JobContext, P], Coro[R]], /
    ) -> Job[P, R, Concatenate[JobContext, P], Coro[R]]: ...
    @overload
    def job(self, function: Callable[P, Coro[R]], /) -> Job[P, R, P, Coro[R]]: ...
    @overload
    def job(self, function: Callable[Concatenate[JobContext, P], R], /) -> Job[P, R, Concatenate[JobContext, P], R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> Job[P, R, P, R]: ...
    @overload
    def job(
        self,
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
        process: bool = False,
    ) -> JobDecorator: ...
    def job(self, *function: Any, process: bool = False, **told: Any) -> Any:
        """Define a job: `@app.job` or `@app.job(queue="mail", max_attempts=5)`.

        A first parameter annotated `JobContext` is injected; all others are the payload. Coroutines run on the
        worker's loop, plain functions in threads, with `process=True` in processes. `timeout=None` is none.

        `max_running`, `concurrency`, `rate`, `schedule`, `retention_days` and `retention_count` are checked and kept
        with the definition, but nothing acts on them yet.
        """
        decorate = JobDecorator(self._add_function, definition(**told), process=process)
        return decorate(*function) if function else decorate

    def command(
        self, key: str, *, argv: Sequence[str], schema: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None, **told: Unpack[DefinitionOptions],
    ) -> Job[..., Any]:  # fmt: skip
        """Define an allow-listed command: an exact argv whose placeholders each fill one argument, never a shell.
        Other options as for `job`.
        """
        check_template(argv)
        defined = replace(
            definition(key=key, **told), kind="command", argv=tuple(argv), env=dict(env or {}),
            arg_schema=dict(schema or {"type": "object", "additionalProperties": False}),
        )  # fmt: skip
        payload = SchemaPayload(key, defined.arg_schema)
        self._add(Handler(defined, "command", payload.decode))
        return Job(self._door, payload, defined)

    def _add_function(self, function: Callable[..., Any], template: Definition, *, process: bool) -> Job[..., Any]:
        payload = SignaturePayload(template.key, function)
        defined = replace(template, arg_schema=payload.schema)
        executor = _executor(function, defined.key, process=process)
        self._add(Handler(defined, executor, payload.decode, function, payload.wants_context))
        return Job(self._door, payload, defined, function)

    def _add(self, handler: Handler) -> None:
        key = check_key(handler.definition.key)
        if key in self.handlers:
            msg = f"There are two definitions of {key!r}: give one another key=…"
            raise UsageError(msg)
        self.handlers.add(handler)

    # -- opening -----------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Connect, and bring the definitions into the database. A second call does nothing."""
        async with self._opening:
            if self._database is None:
                database = await Database.open(await self._find_url(), size=self._pool_size)
                try:
                    await migrate.require_current(database)
                    await engine.registry.sync(database, self.name, self.definitions)
                except BaseException:
                    await database.close()
                    raise
                self._database = database
        return self

    async def close(self) -> None:
        """Give the connections back."""
        database, self._database = self._database, None
        if database is not None:
            await database.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def definitions(self) -> list[Definition]:
        """All that this app defines."""
        return [handler.definition for handler in self.handlers.values()]

    @property
    def url(self) -> str:
        """The database this app is open on."""
        return self._connected.url

    @property
    def jobs(self) -> Jobs:
        """Jobs and definitions, to look at and steer. The app must be open."""
        return Jobs(self._connected, self._trigger, self._sync)

    # -- enqueueing --------------------------------------------------------------------------------------

    async def enqueue_many(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Enqueue many at once, all or none: `[send.request(user_id=i) for i in …]`."""
        return await self._store_many(jobs)

    async def _store(self, job: NewJob) -> Enqueued:
        if job.plain:
            return await self._grouping.enqueue(job)
        return (await self._store_many([job]))[0]

    async def _store_many(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return await engine.enqueue(await self._opened(), jobs)

    async def _trigger(self, name: str, payload: Mapping[str, object], options: JobOptions) -> JobHandle[Any]:
        return await by_name(self._door, name, encode(dict(payload)), options)

    async def _sync(self, force: bool) -> list[str]:
        return await engine.registry.sync(await self._opened(), self.name, self.definitions, complete=True, force=force)

    async def _open_jobs(self) -> Jobs:
        await self._opened()
        return self.jobs

    async def _opened(self) -> Database:
        if self._database is None:
            await self.open()
        assert self._database is not None
        return self._database

    @property
    def _connected(self) -> Database:
        if self._database is None:
            msg = "The app is not open: write `async with app:` around this, or `await app.open()` before it."
            raise NotConfigured(msg)
        return self._database

    async def _find_url(self) -> str:
        if self._url is not None:
            return self._url
        return await asyncio.to_thread(database_url, load_settings())


def database_url(settings: Settings) -> str:
    """The database to use: the one that is set, else the embedded one, started if it does not run."""
    return settings.database_url or embedded.start_embedded(settings.home).url


def _executor(function: Callable[..., Any], key: str, *, process: bool) -> Executor:
    is_async = inspect.iscoroutinefunction(function)
    if process and is_async:
        msg = f"{key!r} is a coroutine and has process=True: a process runs plain functions; drop one of the two."
        raise UsageError(msg)
    return "async" if is_async else "process" if process else "thread"


def _caller() -> str:
    """The module that makes the app: definitions are known to come from there."""
    here = inspect.currentframe()
    frame = here.f_back.f_back if here and here.f_back else None
    told = frame.f_globals if frame else {}
    name = str(told.get("__name__", "app"))
    return Path(str(told.get("__file__", "app"))).stem if name == "__main__" else name
