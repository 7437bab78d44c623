"""A worker at work, and waiting for ends."""

from contextlib import asynccontextmanager

from windlass.db import Statement
from windlass.model.errors import JobFailed
from windlass.processes.worker import WorkerPlan, working


@asynccontextmanager
async def at_work(app, **told):
    async with app, working(WorkerPlan(app, app.url, **told)) as worker:
        yield worker


async def ended(handle):
    """Wait for the end, however it ends."""
    try:
        await handle.result(20)
    except JobFailed:
        pass
    return await handle.view()


class Refusal:
    """Makes the database refuse to write some ends; `count` says how often it did, though all was rolled back."""

    def __init__(self, db) -> None:
        self._db = db

    async def begin(self, sqlstate: str, when: str = "true") -> None:
        async with self._db.transaction() as tx:
            await tx.script(f"""
                create sequence if not exists public.refusals;
                create function public.refuse() returns trigger language plpgsql as $$
                begin
                  perform nextval('public.refusals');
                  raise exception 'refused' using errcode = '{sqlstate}';
                end $$;
                create trigger refuse before insert on windlass.attempts for each row when ({when}) execute function public.refuse()
            """)

    async def count(self) -> int:
        counted = "select case when is_called then last_value else 0 end from public.refusals"
        return await self._db.value(Statement("tests.refusals", counted))

    async def end(self) -> None:
        """The trigger stays, for to drop it would take a lock that writers hold."""
        async with self._db.transaction() as tx:
            await tx.script(
                "create or replace function public.refuse() returns trigger language plpgsql as $$ begin return new; end $$"
            )
