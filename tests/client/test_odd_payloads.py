"""SQL takes payloads that no other edge lets in: such a job can be looked at, and ends without a second try."""

import pytest

from cli.shell import run
from windlass import Windlass
from windlass.db import Statement
from windlass.model import JobState
from windlass.testing import drain

_ENQUEUE = Statement("tests.enqueue", "select windlass.enqueue($1, $2::text::jsonb)")
ODD = {"deep": '{"x": ' + "[" * 1500 + "]" * 1500 + "}", "huge": '{"x": 1e400}'}


@pytest.fixture
async def app(windlass_url):
    app = Windlass(windlass_url, name="tests")
    app.command("anything", argv=["true"], schema={"type": "object"})

    @app.job
    async def take(x: object) -> None: ...

    async with app:
        yield app


@pytest.mark.parametrize("payload", ODD.values(), ids=ODD)
async def test_it_is_shown_as_text(app, db, payload):
    job_id = await db.value(_ENQUEUE, "take", payload)
    view = await app.jobs.get(job_id)
    assert isinstance(view.payload, str)
    assert view.payload.startswith('{"x": ')
    assert [one.id for one in await app.jobs.list()] == [job_id]
    told = run("jobs", "show", str(job_id))
    assert (told.status, told.err) == (0, "")
    assert run("jobs", "show", str(job_id), "--json").status == 0


@pytest.mark.parametrize(("key", "odd"), [("anything", "deep"), ("anything", "huge"), ("take", "deep")])
async def test_it_fails_once_if_it_cannot_be_read(app, db, key, odd):
    job_id = await db.value(_ENQUEUE, key, ODD[odd])
    await drain(app)
    view = await app.jobs.get(job_id)
    assert (view.status, view.attempt_count) == (JobState.FAILED, 1)
    assert "does not fit" in view.error
