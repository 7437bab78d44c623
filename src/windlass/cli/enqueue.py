"""`windlass enqueue`: ask for a job, straight in the database; no application is needed for it."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import orjson
import typer

from windlass.cli._later import Later
from windlass.cli._words import Tenant, duration, moment, name, payload
from windlass.model import Enqueued, JobState, NewJob
from windlass.model.errors import UnknownDefinition

if TYPE_CHECKING:
    from windlass import client, engine
    from windlass.cli import _connect as connect
    from windlass.cli import _follow as follow
    from windlass.cli import _shown as shown
    from windlass.db import Database
else:
    client, engine, connect = Later("windlass.client"), Later("windlass.engine"), Later("windlass.cli._connect")
    follow, shown = Later("windlass.cli._follow"), Later("windlass.cli._shown")

_INT = 2**31 - 1


def enqueue(
    key: Annotated[str, typer.Argument(parser=name, metavar="KEY", help="The definition: see `windlass definitions ls`.")],
    *,
    payload: Annotated[
        str, typer.Option(parser=payload, metavar="JSON", help="A JSON object, or - to read one from stdin.")
    ] = "{}",
    tenant: Tenant = None,
    delay: Annotated[
        float | None, typer.Option("--in", parser=duration, metavar="DURATION", help='Not before: "90s", "5m", "1h30m".')
    ] = None,
    at: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="Not before: RFC 3339, with an offset.")
    ] = None,
    priority: Annotated[int | None, typer.Option(min=-_INT, max=_INT, help="Lower runs first; 100 is usual.")] = None,
    dedupe_key: Annotated[
        str | None, typer.Option(parser=name, metavar="K", help="No new job while one with this key lives.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow it to its end, which the exit status tells: 0 if it succeeded.")
    ] = False,
) -> None:
    """Ask for a job; its id is printed."""
    if delay is not None and at is not None:
        raise typer.BadParameter("give one of --in and --at, not both.")
    owner = tenant or connect.settings().tenant
    job = NewJob(key, payload, owner, priority, delay, at, dedupe_key=dedupe_key)
    if not connect.on_database(lambda database: _ask(database, job, wait=wait)):
        raise typer.Exit(1)


async def _ask(database: "Database", job: NewJob, *, wait: bool) -> bool:
    """Enqueue it, and follow it if that is wanted; False if it did not succeed."""
    tenant = await engine.reads.tenant_id(database, job.tenant)
    slug = await engine.reads.tenant_slug(database, tenant)
    checked = replace(job, payload=await _fitting(database, job), tenant=slug)
    (became,) = await engine.enqueue(database, [checked])
    shown.say(str(became.id))
    if became.deduplicated:
        shown.say(f"No new job: this one has the key {job.dedupe_key!r}, and lives.", error=True)
    return not wait or await _follow(database, job, tenant, became)


async def _fitting(database: "Database", job: NewJob) -> str:
    """The payload, if it fits what the definition wants."""
    definition = (await engine.registry.effective(database)).get(job.key)
    if definition is None:
        raise UnknownDefinition(job.key)
    if not definition.arg_schema:
        return job.payload
    return client.SchemaPayload(job.key, definition.arg_schema).encode_payload(orjson.loads(job.payload))


async def _follow(database: "Database", job: NewJob, tenant: UUID, became: Enqueued) -> bool:
    if not any(job.key in worker.definitions for worker in await engine.workers.ls(database)):
        shown.say(f"No worker handles {job.key!r} now: start one with `windlass worker -A module:app`.", error=True)
    view = await follow.Followed(database, tenant, became.id).to_the_end()
    return view.status is JobState.SUCCEEDED
