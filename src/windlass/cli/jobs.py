"""`windlass jobs`: list, show, cancel, retry, and read what they said."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import orjson
import typer

from windlass.cli._later import Later
from windlass.cli._words import AsJson, JobId, JobIds, Tenant, name, noun
from windlass.model import AttemptView, JobState, JobView, LogLine
from windlass.model.errors import Conflict, UnknownJob

if TYPE_CHECKING:
    from windlass import engine
    from windlass.cli import _connect as connect
    from windlass.cli import _follow as follow
    from windlass.cli import _shown as shown
    from windlass.db import Database
else:
    engine, connect = Later("windlass.engine"), Later("windlass.cli._connect")
    follow, shown = Later("windlass.cli._follow"), Later("windlass.cli._shown")

app = noun("Jobs: list, show, cancel, retry, read what they said.")
_HOSTLESS = {"host_id": None, "server_id": None}


@app.command("ls")
def ls(
    *,
    status: Annotated[list[JobState] | None, typer.Option(help="Only in this state; may be given several times.")] = None,
    definition: Annotated[str | None, typer.Option(parser=name, metavar="KEY", help="Only of this definition.")] = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most.")] = 50,
    cursor: Annotated[UUID | None, typer.Option(metavar="ID", help="Go on after this job: `next_cursor` of --json.")] = None,
    as_json: AsJson = False,
) -> None:
    """A tenant's jobs, newest first."""
    owner = tenant or connect.settings().tenant
    which = engine.reads.Filter(status, definition)

    async def read(database: "Database") -> list[JobView]:
        return await engine.reads.jobs(database, await engine.reads.tenant_id(database, owner), which, limit, cursor)

    views = connect.on_database(read)
    more = {"next_cursor": views[-1].id if len(views) == limit else None}
    if as_json:
        shown.document({"items": [shown.record(view, "payload", "result", **_HOSTLESS) for view in views], **more})
    else:
        shown.listing(views, _COLUMNS, none="There are no such jobs.", as_json=False)


@app.command("show")
def show(job_id: JobId, *, as_json: AsJson = False) -> None:
    """Everything about one job, and its attempts."""

    async def read(database: "Database") -> tuple[JobView, list[AttemptView]]:
        owner = await engine.reads.tenant_of(database, job_id)
        return await engine.reads.job(database, owner, job_id), await engine.reads.attempts(database, owner, job_id)

    view, attempts = connect.on_database(read)
    if as_json:
        shown.document(shown.record(view, attempts=attempts, **_HOSTLESS))
    else:
        _tell(view, attempts)


@app.command("cancel")
def cancel(
    job_ids: JobIds,
    *,
    reason: Annotated[str, typer.Option(parser=name, metavar="TEXT", help="Why; kept with the job.")] = "canceled by hand",
    as_json: AsJson = False,
) -> None:
    """Cancel jobs: those that wait end now, those that run are asked to stop, and made to if they do not."""

    async def do(database: "Database", owner: UUID, job_id: UUID) -> str:
        became = await engine.cancel(database, owner, [job_id], reason)
        if became.ended:
            return "canceled"
        return "asked to stop" if became.asked else ""

    _each(job_ids, do, "only a job that has not ended can be canceled", as_json=as_json)


@app.command("retry")
def retry(job_ids: JobIds, *, as_json: AsJson = False) -> None:
    """Run jobs again that ended, with as many attempts as at first."""

    async def do(database: "Database", owner: UUID, job_id: UUID) -> str:
        return "queued" if await engine.retry(database, owner, [job_id]) else ""

    _each(job_ids, do, "only a job that has ended can be retried", as_json=as_json)


@app.command("logs")
def read_logs(
    job_id: JobId,
    *,
    follow_it: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a job said, from its first line on."""
    if follow_it and as_json:
        raise typer.BadParameter("--json is one document, and -f has no end: give one of them.")

    async def tell(database: "Database") -> None:
        followed = follow.Followed(database, await engine.reads.tenant_of(database, job_id), job_id)
        if follow_it:
            await followed.to_the_end()
        elif as_json:
            shown.document({"items": [shown.record(line, fields=_fields(line)) async for line in followed.lines()]})
        else:
            await followed.tell_lines()

    connect.on_database(tell)


def _each(
    job_ids: Sequence[UUID], do: "Callable[[Database, UUID, UUID], Awaitable[str]]", else_why: str, *, as_json: bool
) -> None:
    """Do it to each, and say what became of it; exit status 1 if it could not be done to one of them."""

    async def do_all(database: "Database") -> list[dict[str, object]]:
        done: list[dict[str, object]] = []
        for job_id in job_ids:
            became, error = None, None
            try:
                became = await _one(database, job_id)
                if not as_json:
                    shown.say_words(str(job_id), became)
            except (UnknownJob, Conflict) as problem:
                error = str(problem)
                shown.say(f"Error: {error}", error=True)
            done.append({"id": job_id, "became": became, "error": error})
        return done

    async def _one(database: "Database", job_id: UUID) -> str:
        owner = await engine.reads.tenant_of(database, job_id)
        became = await do(database, owner, job_id)
        if not became:
            status = (await engine.reads.job(database, owner, job_id)).status
            raise Conflict(f"Job {job_id} is {status}: {else_why}.", status)
        return became

    done = connect.on_database(do_all)
    if as_json:
        shown.document({"items": done})
    if any(one["error"] for one in done):
        raise typer.Exit(1)


def _fields(line: LogLine) -> object:
    return orjson.loads(line.fields) if line.fields else {}


def _took(view: JobView | AttemptView) -> str:
    return shown.lasting(view.finished_at - view.started_at) if view.started_at and view.finished_at else ""


def _attempts(view: JobView) -> str:
    return f"{view.attempt_count}/{view.max_attempts}"


def _remark(view: JobView) -> str:
    """The last line of an error is the one that says it."""
    return view.error.strip().rpartition("\n")[2][:100] if view.error else ""


_COLUMNS: dict[str, Callable[[JobView], str]] = {
    "id": lambda view: str(view.id),
    "status": lambda view: view.status,
    "definition": lambda view: view.definition_key,
    "queued": lambda view: shown.ago(view.queued_at),
    "took": _took,
    "attempts": _attempts,
    "error": _remark,
}
_ATTEMPT: dict[str, Callable[[AttemptView], str]] = {
    "attempt": lambda one: str(one.attempt_no),
    "status": lambda one: one.status,
    "started": lambda one: shown.ago(one.started_at),
    "took": _took,
    "exit code": lambda one: "" if one.exit_code is None else str(one.exit_code),
    "error": lambda one: one.error.strip().rpartition("\n")[2] if one.error else "",
}


def _tell(view: JobView, attempts: Sequence[AttemptView]) -> None:
    waits = view.waiting_on["text"] if view.waiting_on else None
    shown.facts({
        "id": str(view.id),
        "status": view.status,
        "waits": str(waits) if waits else None,
        "progress": None if view.progress is None else f"{view.progress:.0%} {view.progress_note or ''}",
        "definition": view.definition_key,
        "tenant": view.tenant,
        "queue": f"{view.queue}, priority {view.priority}",
        "payload": shown.inline(view.payload),
        "queued": _at(view.queued_at),
        "not before": _at(view.scheduled_for),
        "started": _at(view.started_at),
        "finished": _at(view.finished_at),
        "took": _took(view),
        "attempts": _attempts(view),
        "dedupe key": view.dedupe_key,
        "correlation": view.correlation_id,
        "parent": str(view.parent_id) if view.parent_id else None,
        "children": "\n".join(map(str, view.children)),
        "cost": None if view.cost_cents is None else f"{view.cost_cents / 100:.2f}",
        "result": shown.inline(view.result),
        "error": view.error,
    })  # fmt: skip
    if attempts:
        shown.say("")
        shown.listing(attempts, _ATTEMPT, none="", as_json=False)


def _at(moment: datetime | None) -> str | None:
    return moment and f"{moment:%Y-%m-%d %H:%M:%S} UTC ({shown.ago(moment)})"
