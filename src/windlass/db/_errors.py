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
    NotConfigured,
    NotStorable,
    SchemaMismatch,
    UnknownDefinition,
    UnknownJob,
    UnknownTenant,
    UsageError,
    WindlassError,
)

DATABASE_URL = "database URL (WINDLASS_DATABASE_URL)"
# 08 connection, 57P admin shutdown, 53300 too many connections, 25006 read-only (a demoted primary).
_PASSING = ("08", "57P", "53300", "25006", "40001", "40P01")
_MISSING_SCHEMA = frozenset({"3F000", "42P01", "42883", "42703"})
# Only what says that this value can never be stored: data exceptions, the driver's own included; too large; nested
# deeper than the server's stack. A full disk, a lock or a time-out is nobody's value, and worth another try.
_UNSTORABLE = ("22", "54000", "54001")
# What the server says to a client it does not let in, and what to do about it.
_NOT_LET_IN = {
    "3D000": "create it (with `createdb`, say), or put the {address} right",
    "28000": "put the user in the {address} right, or let the server's pg_hba.conf admit it",
    "28P01": "put the user and password in the {address} right",
}


@contextmanager
def translated(address: str = DATABASE_URL) -> Generator[None]:
    """Turn what the driver raises into the tree of `windlass.model.errors`. `address` is what to put right when it
    leads to a server that does not let us in.
    """
    try:
        yield
    except asyncpg.PostgresError as problem:
        raise _from_server(problem, address) from problem
    except (asyncpg.InterfaceError, OSError, TimeoutError, EOFError) as problem:
        msg = f"The database connection failed: {problem or type(problem).__name__}."
        raise Disconnected(msg) from problem


def is_answer(problem: BaseException) -> bool:
    """Whether the server answered, if with a refusal: then its connection can be used again."""
    return isinstance(problem, asyncpg.PostgresError) and not (problem.sqlstate or "").startswith(_PASSING)


def refusal(state: str, message: str, detail: str | None) -> WindlassError | None:
    """What one of Windlass's own SQL functions refused, whichever driver heard it; None if it was not one of them."""
    make = _RAISED_BY_OUR_SQL.get(state)
    return make(message, detail or message) if make else None


def _from_server(problem: asyncpg.PostgresError, address: str) -> WindlassError:
    state = problem.sqlstate or ""
    told = str(problem).rstrip(".")
    ours = refusal(state, str(problem.args[0]), problem.detail)
    if ours is not None:
        return ours
    if state in _NOT_LET_IN:
        return NotConfigured(f"PostgreSQL does not let us in ({told}): {_NOT_LET_IN[state].format(address=address)}.")
    if state.startswith(_PASSING):
        return Disconnected(f"The database connection failed: {told}.")
    if state in _MISSING_SCHEMA and "windlass" in told:
        return SchemaMismatch(f"This database lacks part of Windlass ({told}): run `windlass db migrate`.")
    if state.startswith(_UNSTORABLE):
        return NotStorable(f"A value cannot be stored: {told}.")
    if state == "42501":
        return DatabaseError(f"PostgreSQL does not permit it ({told}): grant it to the user in the {address}, or name another.")
    return DatabaseError(f"PostgreSQL refused ({state}): {told}.")


# The SQL functions raise these: a sentence as the message, and the bare thing that is at fault as its detail.
_RAISED_BY_OUR_SQL: dict[str, Callable[[str, str], WindlassError]] = {
    "WL001": lambda _, key: UnknownDefinition(key),
    "WL002": lambda _, key: InactiveDefinition(key, "it is switched off, or gone from the code"),
    "WL003": lambda _, tenant: UnknownTenant(tenant),
    "WL004": lambda _, job_id: UnknownJob(job_id),
    "WL005": lambda told, _: NotStorable(told),
    "WL006": lambda told, _: UsageError(told),
    "WL007": Conflict,
    "WL008": lambda _, key: BadPayload(key, [("", "it is not a JSON object")]),
}
