"""From the driver's errors to ours, in one place: no other room knows the driver."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import asyncpg

from windlass.model.errors import (
    BadPayload,
    Conflict,
    DatabaseError,
    Disconnected,
    InactiveDefinition,
    NotStorable,
    SchemaMismatch,
    UnknownDefinition,
    UnknownJob,
    UnknownTenant,
    UsageError,
)

# 08 connection, 57P admin shutdown, 53300 too many connections, 25006 read-only (a demoted primary).
_PASSING = ("08", "57P", "53300", "25006", "40001", "40P01")
_MISSING_SCHEMA = frozenset({"3F000", "42P01", "42883", "42703"})
_UNSTORABLE = ("22", "54000")  # data exceptions, the driver's own included; too large


@contextmanager
def translated() -> Generator[None]:
    """Turn what the driver raises into the tree of `windlass.model.errors`."""
    try:
        yield
    except asyncpg.PostgresError as problem:
        raise _from_server(problem) from problem
    except (asyncpg.InterfaceError, OSError, TimeoutError, EOFError) as problem:
        msg = f"The database connection failed: {problem or type(problem).__name__}."
        raise Disconnected(msg) from problem


def is_answer(problem: BaseException) -> bool:
    """Whether the server answered, if with a refusal: then its connection can be used again."""
    return isinstance(problem, asyncpg.PostgresError) and not (problem.sqlstate or "").startswith(_PASSING)


def _from_server(problem: asyncpg.PostgresError) -> Exception:
    state = problem.sqlstate or ""
    told = str(problem)
    ours = _RAISED_BY_OUR_SQL.get(state)
    if ours is not None:
        return ours(told)
    if state.startswith(_PASSING):
        return Disconnected(f"The database connection failed: {told}.")
    if state in _MISSING_SCHEMA and "windlass" in told:
        return SchemaMismatch(f"This database lacks part of Windlass ({told}): run `windlass db migrate`.")
    if state.startswith(_UNSTORABLE):
        return NotStorable(f"A value cannot be stored: {told}.")
    return DatabaseError(f"PostgreSQL refused ({state}): {told}.")


# The SQL functions raise these with the bare thing as their message.
_RAISED_BY_OUR_SQL: dict[str, Callable[[str], Exception]] = {
    "WL001": UnknownDefinition,
    "WL002": lambda told: InactiveDefinition(told, "it is switched off, or gone from the code"),
    "WL003": UnknownTenant,
    "WL004": UnknownJob,
    "WL005": NotStorable,
    "WL006": UsageError,
    "WL007": lambda told: Conflict(told, told),
    "WL008": lambda told: BadPayload(told, [("", "it is not a JSON object")]),
}
