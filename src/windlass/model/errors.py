"""Every error Windlass raises, drawn as a tree. A message says what happened and what to do next.

WindlassError
├── UsageError                wrong arguments, a bad name, a malformed payload: the caller's to fix
│   ├── BadPayload            what was passed does not fit the definition (.errors names each path)
│   ├── NotStorable           NUL, lone surrogates, NaN, too deep, too large
│   ├── BadArgument           (model.argv) a payload's value that cannot be a command's argument
│   ├── UnknownDefinition     no definition has that key
│   ├── InactiveDefinition    it exists but may not run
│   ├── UnknownTenant
│   └── UnknownJob
├── Conflict                  the thing is in a state in which that cannot be done (.state)
├── CommandNotStarted        (worker) a command's program cannot be started
├── ChildDied                (worker) the process that ran a job is gone
├── LeaseLost                 the job is no longer this worker's
├── JobFailed                 `job.result()` of a job that did not succeed (.status, .error)
├── NotConfigured             a setting is missing or wrong
└── DatabaseError             the database cannot be reached, started, or is of the wrong kind
    ├── Disconnected          the connection broke or was refused: passing, worth another try
    ├── EmbeddedError         the embedded PostgreSQL cannot start, and precisely why
    └── SchemaMismatch        migrations missing, changed, or from the future
"""

from collections.abc import Sequence


class WindlassError(Exception):
    """The root: catch this to catch everything Windlass raises on purpose."""


class UsageError(WindlassError):
    """The caller asked for something that cannot be."""


class BadPayload(UsageError):
    """A payload that does not fit its definition; `errors` holds `(path, message)` pairs."""

    def __init__(self, key: str, errors: Sequence[tuple[str, str]]) -> None:
        self.key = key
        self.errors = list(errors)
        told = "; ".join(f"{path or '(payload)'}: {message}" for path, message in self.errors)
        super().__init__(f"The payload does not fit {key!r}: {told}")


class NotStorable(UsageError):
    """A value PostgreSQL or JSON cannot hold."""


class UnknownDefinition(UsageError):
    """No definition has this key."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(
            f"There is no definition {key!r}. Start a worker with the app that defines it, or look at `windlass definitions ls`."
        )


class InactiveDefinition(UsageError):
    """The definition exists, but may not run: switched off, or gone from the code."""

    def __init__(self, key: str, why: str) -> None:
        self.key = key
        super().__init__(f"Definition {key!r} may not run: {why}.")


class UnknownTenant(UsageError):
    """No tenant has this slug or id."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        super().__init__(f"There is no tenant {tenant!r}. Make it first, or leave the tenant out for 'default'.")


class UnknownJob(UsageError):
    """No job has this id, or it is another tenant's."""

    def __init__(self, job_id: object) -> None:
        self.job_id = job_id
        super().__init__(f"There is no job {job_id}.")


class Conflict(WindlassError):
    """The thing's state does not allow this."""

    def __init__(self, message: str, state: str) -> None:
        self.state = state
        super().__init__(message)


class LeaseLost(WindlassError):
    """The job is no longer this worker's: it was given to another, or ended."""


class JobFailed(WindlassError):
    """A job whose result was awaited ended without one."""

    def __init__(self, job_id: object, status: str, error: str | None) -> None:
        self.job_id, self.status, self.error = job_id, status, error
        super().__init__(f"Job {job_id} ended {status}" + (f": {error}" if error else "."))


class NotConfigured(WindlassError):
    """A setting is missing or wrong."""


class DatabaseError(WindlassError):
    """The database cannot be used as it is."""


class Disconnected(DatabaseError):
    """The connection broke, or the database is not taking any: passing, so worth another try."""


class EmbeddedError(DatabaseError):
    """The embedded PostgreSQL cannot start."""


class SchemaMismatch(DatabaseError):
    """The database's migrations and this version of Windlass do not fit."""
