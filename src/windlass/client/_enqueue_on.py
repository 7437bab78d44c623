"""Enqueue inside the caller's own transaction, on the caller's own connection, whatever its library.

All of it is one call of the SQL function; libraries differ in how they write a placeholder and in whether the
call is awaited. None of them is imported: a connection tells by its type where it comes from. What the function
refuses is raised as `enqueue` raises it, with the library's own error as the cause.
"""

import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from windlass.db import refusal
from windlass.model import Enqueued, NewJob
from windlass.model.errors import UsageError, WindlassError

# Every value travels as text, so that no library's own idea of types gets in the way.
_TYPES = (
    "text", "jsonb", "text", "int", "interval", "timestamptz", "text", "interval", "text", "uuid[]", "int", "text",
    "text", "uuid", "text",
)  # fmt: skip


def enqueue_on(connection: Any, job: NewJob) -> Enqueued | Awaitable[Enqueued]:
    """Enqueue on this connection; awaitable if the connection is asynchronous."""
    values = _values(job)
    for library, do in _LIBRARIES.items():
        if any(kind.__module__.split(".")[0] == library for kind in type(connection).__mro__):
            return do(connection, values)
    msg = (
        f"{type(connection).__module__}.{type(connection).__name__} is not a connection that can be enqueued on: "
        "pass one of psycopg 3, SQLAlchemy (connection or session), Django or asyncpg, or call "
        "`select windlass.enqueue(…)` yourself."
    )
    raise UsageError(msg)


def _values(job: NewJob) -> list[str | None]:
    return [
        job.key,
        job.payload,
        job.tenant,
        _text(job.priority),
        None if job.delay is None else f"{job.delay} seconds",
        None if job.due_at is None else job.due_at.isoformat(),
        job.dedupe_key,
        None if job.dedupe_window is None else f"{job.dedupe_window} seconds",
        job.correlation_id,
        "{" + ",".join(str(parent) for parent in job.depends_on) + "}",
        _text(job.max_attempts),
        job.source,
        job.source_ref,
        _text(job.parent_id),
        job.created_by,
    ]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _sql(placeholder: Callable[[int], str]) -> str:
    arguments = ", ".join(f"cast(cast({placeholder(n)} as text) as {kind})" for n, kind in enumerate(_TYPES, 1))
    return f"select id, deduplicated from windlass.enqueue_one({arguments})"  # noqa: S608 - placeholders only


_PERCENT = _sql(lambda _: "%s")
_DOLLAR = _sql(lambda n: f"${n}")
_NAMED = _sql(lambda n: f":p{n}")


def _named(values: Sequence[str | None]) -> dict[str, str | None]:
    return {f"p{n}": value for n, value in enumerate(values, 1)}


@contextmanager
def _refusals() -> Generator[None]:
    """Turn what our function refused into our own error; whatever else went wrong stays what it is."""
    try:
        yield
    except Exception as problem:
        ours = _refusal(problem)
        if ours is None:
            raise
        raise ours from problem


def _refusal(problem: BaseException | None) -> WindlassError | None:
    """SQLAlchemy keeps the driver's error as `orig`, Django as the cause; psycopg says more of it in `diag`."""
    while problem is not None:
        told: Any = getattr(problem, "diag", None) or problem
        message = getattr(told, "message_primary", None) or getattr(told, "message", None)
        if message:
            detail = getattr(told, "message_detail", None) or getattr(told, "detail", None)
            return refusal(getattr(told, "sqlstate", None) or "", message, detail)
        problem = getattr(problem, "orig", None) or problem.__cause__
    return None


def _psycopg(connection: Any, values: Sequence[str | None]) -> Enqueued | Awaitable[Enqueued]:
    if hasattr(connection, "__aenter__"):
        return _psycopg_async(connection, values)
    with _refusals(), connection.cursor() as cursor:
        cursor.row_factory = tuple_row
        cursor.execute(_PERCENT, values)
        return Enqueued(*cursor.fetchone())


async def _psycopg_async(connection: Any, values: Sequence[str | None]) -> Enqueued:
    with _refusals():
        async with connection.cursor() as cursor:
            cursor.row_factory = tuple_row
            await cursor.execute(_PERCENT, values)
            return Enqueued(*await cursor.fetchone())


def tuple_row(cursor: Any) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A psycopg row factory: plain tuples, whatever the connection makes of rows."""
    _ = cursor
    return tuple


def _sqlalchemy(connection: Any, values: Sequence[str | None]) -> Enqueued | Awaitable[Enqueued]:
    text = sys.modules["sqlalchemy"].text  # its connection is here, so it is loaded
    with _refusals():
        answer = connection.execute(text(_NAMED), _named(values))
        return _sqlalchemy_async(answer) if hasattr(answer, "__await__") else Enqueued(*answer.one())


async def _sqlalchemy_async(answer: Awaitable[Any]) -> Enqueued:
    with _refusals():
        return Enqueued(*(await answer).one())


def _django(connection: Any, values: Sequence[str | None]) -> Enqueued:
    with _refusals(), connection.cursor() as cursor:
        cursor.execute(_PERCENT, values)
        return Enqueued(*cursor.fetchone())


async def _asyncpg(connection: Any, values: Sequence[str | None]) -> Enqueued:
    with _refusals():
        row = await connection.fetchrow(_DOLLAR, *values)
    return Enqueued(row["id"], row["deduplicated"])


_LIBRARIES: dict[str, Callable[[Any, Sequence[str | None]], Enqueued | Awaitable[Enqueued]]] = {
    "psycopg": _psycopg,
    "sqlalchemy": _sqlalchemy,
    "django": _django,
    "asyncpg": _asyncpg,
}
