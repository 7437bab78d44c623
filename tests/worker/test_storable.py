"""F-24: what cannot be stored, in each place a job can leave it, from each kind of executor."""

from pathlib import Path

import pytest

from windlass.model import JobState
from worker import oddapp
from worker.hands import at_work, ended

KINDS = pytest.mark.parametrize("kind", ["async", "thread", "process"])


@pytest.fixture
def odd(windlass_url, monkeypatch):
    """The app that leaves odd things, as its child processes see it, too."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    oddapp.app.handlers.source = "worker.oddapp:app"
    oddapp.app._url = windlass_url
    return oddapp.app


@KINDS
async def test_a_result_that_cannot_be_stored_fails_the_job_at_once_and_says_why(odd, kind):
    job = getattr(oddapp, f"leave_{kind}")
    async with at_work(odd):
        handles = {what: await job.options(max_attempts=3).enqueue("result", what) for what in oddapp.THINGS}
        views = {what: await ended(handle) for what, handle in handles.items()}
    assert {what: (view.status, view.attempt_count) for what, view in views.items()} == dict.fromkeys(
        oddapp.THINGS, (JobState.FAILED, 1)
    )
    for view in views.values():
        assert view.error.startswith("The job ran, but its result cannot be kept. The result ")


@KINDS
async def test_words_that_cannot_be_stored_are_cleaned_and_change_no_end(odd, kind):
    ends = {
        "raise": JobState.DEAD_LETTER, "retry": JobState.DEAD_LETTER, "fail": JobState.FAILED, "cancel": JobState.CANCELED,
    }  # fmt: skip
    job = getattr(oddapp, f"leave_{kind}")
    async with at_work(odd):
        handles = [(how, what, await job.enqueue(how, what)) for how in ends for what in oddapp.THINGS]
        views = [(how, what, await ended(handle)) for how, what, handle in handles]
    assert [(how, what, view.status) for how, what, view in views] == [(how, what, ends[how]) for how, what, _ in views]
    assert all(0 < len(view.error) <= 16_384 for _, _, view in views)


@KINDS
async def test_a_line_that_cannot_be_stored_is_cleaned_and_hurts_nobody(odd, kind):
    job = getattr(oddapp, f"speak_{kind}")
    async with at_work(odd):
        handles = {what: await job.enqueue(what) for what in oddapp.THINGS}
        views = {what: await ended(handle) for what, handle in handles.items()}
    async with odd:
        lines = {what: await odd.jobs.list_logs(handle.id) for what, handle in handles.items()}
    assert {what: view.result for what, view in views.items()} == dict.fromkeys(oddapp.THINGS, "said")
    for what, (message, fields) in lines.items():
        assert 0 < len(message.message) <= 16_384, what
        assert fields.message == "fields"
        assert "thing" in fields.fields or "unreadable" in fields.fields or "truncated" in fields.fields
