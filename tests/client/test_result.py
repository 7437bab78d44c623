"""What a job returned, as its enqueuer gets it."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, Field

from windlass import Done, Retry, Windlass
from windlass.client import JobHandle
from windlass.model import Enqueued, JobState
from windlass.model.errors import JobFailed, UsageError
from windlass.testing import drain

WHO, WHEN = UUID(int=7), datetime(2030, 1, 1, tzinfo=UTC)


class Receipt(BaseModel):
    """A model, one of whose fields goes by another name outside."""

    number: int = Field(alias="receiptNumber")


@dataclass
class Point:
    """Plain data."""

    x: int
    y: int


@pytest.fixture
def app(windlass_url):
    return Windlass(windlass_url, name="tests")


async def _result(app, job):
    async with app:
        handle = await job.enqueue()
        await drain(app)
        return await handle.result(timeout=0)


def uuid() -> UUID:
    return WHO


def moments() -> tuple[datetime, ...]:
    return (WHEN,)


def model() -> Receipt:
    return Receipt(receiptNumber=3)


def points() -> list[Point]:
    return [Point(1, 2)]


def nothing() -> None: ...


def maybe() -> UUID | Retry:
    return WHO


def done() -> Done:
    return Done({"any": "thing"})


def unannotated():
    return {"who": WHO}


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (uuid, WHO), (moments, (WHEN,)), (model, Receipt(receiptNumber=3)), (points, [Point(1, 2)]), (nothing, None),
        (maybe, WHO), (done, {"any": "thing"}), (unannotated, {"who": str(WHO)}),
    ],
)  # fmt: skip
async def test_a_result_is_what_the_function_is_annotated_to_return(app, function, result):
    found = await _result(app, app.job(function))
    assert (found, type(found)) == (result, type(result))


async def test_a_result_that_is_something_else_says_so(app):
    @app.job
    def lie() -> int:
        return "seven"

    with pytest.raises(UsageError, match="'lie' is annotated to return.*view"):
        await _result(app, lie)


async def test_an_annotation_that_has_no_json_form_says_so(app):
    @app.job
    def odd() -> Windlass: ...

    with pytest.raises(UsageError, match="'odd' is annotated to return what cannot be read back"):
        await _result(app, odd)


class Ends:
    """Stands for `app.jobs`: the job ends after so many seconds."""

    def __init__(self, after: float, state: JobState = JobState.SUCCEEDED) -> None:
        self._at, self._state = time.monotonic() + after, state

    async def outcome(self, *_, **__):
        return (self._state, "done", "no luck") if time.monotonic() >= self._at else None

    async def jobs(self):
        return self

    def handle(self):
        return JobHandle(self.jobs, "default", lambda _, value: value, Enqueued(uuid4()))


async def test_a_job_that_ends_just_in_time_is_seen():
    assert await Ends(after=0.39).handle().result(timeout=0.4) == "done"


async def test_a_time_out_is_never_early():
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="after 0.2 s"):
        await Ends(after=60).handle().result(timeout=0.2)
    assert time.monotonic() - began >= 0.2


async def test_without_patience_there_is_one_look():
    assert await Ends(after=0).handle().result(timeout=0) == "done"
    with pytest.raises(TimeoutError):
        await Ends(after=60).handle().result(timeout=0)


async def test_a_job_that_did_not_succeed_raises_how_it_ended():
    with pytest.raises(JobFailed, match="dead_letter: no luck"):
        await Ends(0, JobState.DEAD_LETTER).handle().result()
