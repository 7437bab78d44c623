"""From an outcome to what becomes of the job: the one place where outcomes are matched. Pure."""

from dataclasses import dataclass

from windlass.model.backoff import Backoff
from windlass.model.durations import seconds
from windlass.model.outcomes import Cancel, Done, Fail, Outcome, Retry, Snooze
from windlass.model.states import AttemptStatus, JobState


@dataclass(frozen=True, slots=True)
class Verdict:
    """`state` is the end, or None when the job goes back to wait `retry_after` seconds."""

    status: AttemptStatus
    state: JobState | None = None
    retry_after: float | None = None
    error: str | None = None
    spends_attempt: bool = True


SUCCEEDED = Verdict(AttemptStatus.SUCCEEDED, JobState.SUCCEEDED)


def verdict(outcome: Outcome, attempt: int, max_attempts: int, backoff: Backoff, chance: float) -> Verdict:
    """What becomes of a job whose try number `attempt` ended with this outcome."""
    match outcome:
        case Done():
            return SUCCEEDED
        case Fail(reason):
            return Verdict(AttemptStatus.FAILED, JobState.FAILED, error=reason)
        case Cancel(reason):
            return Verdict(AttemptStatus.CANCELED, JobState.CANCELED, error=reason)
        case Snooze(after):
            return Verdict(AttemptStatus.FAILED, retry_after=seconds(after), spends_attempt=False)
        case Retry(after, error):
            wait = None if after is None else seconds(after)
            return tried_in_vain(AttemptStatus.FAILED, error, attempt, max_attempts, backoff, chance, wait)


def tried_in_vain(
    status: AttemptStatus,
    error: str | None,
    attempt: int,
    max_attempts: int,
    backoff: Backoff,
    chance: float,
    wait: float | None = None,
) -> Verdict:
    """A try that spent its attempt: another one while the budget lasts, else the dead letters."""
    if attempt >= max_attempts:
        return Verdict(status, JobState.DEAD_LETTER, error=error)
    return Verdict(status, retry_after=backoff.delay(attempt, chance) if wait is None else wait, error=error)
