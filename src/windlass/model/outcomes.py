"""What a handler says of its job. An outcome is a value, matched once (in `verdict`)."""

from dataclasses import dataclass
from datetime import timedelta

Delay = float | str | timedelta


@dataclass(frozen=True, slots=True)
class Done:
    """The job succeeded, with this result."""

    result: object = None


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again: after this delay, or (None) after the definition's backoff. Spends an attempt."""

    after: Delay | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Snooze:
    """Come back later without spending an attempt."""

    after: Delay = 60.0


@dataclass(frozen=True, slots=True)
class Fail:
    """Never retry: the job ends `failed` for this reason."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The job need not be done any more: it ends `canceled` for this reason."""

    reason: str = ""


Outcome = Done | Retry | Snooze | Fail | Cancel
