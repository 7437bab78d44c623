"""From what a job left behind to the end that is written. Pure, but for the text of a traceback."""

import time
import traceback

from windlass.model import (
    AttemptStatus,
    Cancel,
    Done,
    Fail,
    JobState,
    Outcome,
    Retry,
    Settled,
    Snooze,
    Verdict,
    verdict,
)
from windlass.model.argv import BadArgument
from windlass.model.errors import BadPayload, NotStorable, UsageError
from windlass.model.storable import MAX_RESULT_BYTES, clean_text, encode
from windlass.model.verdict import tried_in_vain
from windlass.worker._running import Running, Stop
from windlass.worker._words import as_text

_OUTCOMES = (Done, Retry, Snooze, Fail, Cancel)


def of_result(running: Running, result: object, chance: float) -> Settled:
    """The end of a job whose code returned."""
    outcome: Outcome = result if isinstance(result, _OUTCOMES) else Done(result)
    text = None
    if isinstance(outcome, Done) and outcome.result is not None:
        try:
            text = encode(outcome.result, what="result", limit=MAX_RESULT_BYTES)
        except NotStorable as problem:
            outcome = Fail(f"The job ran, but its result cannot be kept. {problem}")
    job = running.job
    try:
        became = verdict(outcome, job.attempt, job.max_attempts, running.prepared.definition.backoff, chance)
    except (UsageError, TypeError, ValueError, ArithmeticError) as problem:
        became = Verdict(AttemptStatus.FAILED, JobState.FAILED, error=f"The job's outcome makes no sense: {problem}")
    return _settled(running, became, text)


def of_error(running: Running, problem: BaseException, chance: float) -> Settled:
    """The end of a job whose code raised: another try, unless its payload can never fit."""
    if isinstance(problem, BadPayload | BadArgument):
        return of_result(running, Fail(str(problem)), chance)
    return of_result(running, Retry(error=_told(problem)), chance)


def of_stop(running: Running, chance: float) -> Settled | None:
    """The end of a job that was made to stop; None when it is not ours to write one."""
    job, policy = running.job, running.prepared.definition
    if running.stop is Stop.TIMEOUT:
        told = f"It ran longer than its timeout of {policy.timeout_seconds:g} s."
        spent = tried_in_vain(AttemptStatus.TIMEOUT, told, job.attempt, job.max_attempts, policy.backoff, chance)
        return _settled(running, spent, None)
    if running.stop is Stop.CANCELED:
        return _settled(running, Verdict(AttemptStatus.CANCELED, JobState.CANCELED, error=running.reason), None)
    return None


def _settled(running: Running, became: Verdict, result: str | None) -> Settled:
    now = time.monotonic()
    job = running.job
    return Settled(
        job.id,
        job.lease,
        became.status,
        became.state,
        result,
        None if became.error is None else as_text(became.error),
        became.retry_after,
        became.spends_attempt,
        (now - running.began) * 1000 if running.began else 0.0,
        now,
        running.exit_code,
        running.cost_cents,
        clean_text(running.stdout_tail),
        clean_text(running.stderr_tail),
    )


def _told(problem: BaseException) -> str:
    """The traceback, without the frames of the worker itself; an exception may refuse even to be printed."""
    try:
        trace = problem.__traceback__
        while trace is not None and "/windlass/worker/" in trace.tb_frame.f_code.co_filename:
            trace = trace.tb_next
        return "".join(traceback.format_exception(type(problem), problem, trace, limit=30)).strip()
    except Exception:
        return f"{type(problem).__name__} (it cannot be printed)"
