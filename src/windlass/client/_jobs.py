"""`app.jobs`: jobs and definitions, looked at and steered from code."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

from windlass import engine
from windlass.client._handle import JobHandle
from windlass.client._options import JobOptions
from windlass.client._runs import Runs
from windlass.db import Database
from windlass.model import EffectiveDefinition
from windlass.model.errors import UnknownDefinition

Trigger = Callable[[str, Mapping[str, object], JobOptions], Awaitable[JobHandle[Any]]]
Sync = Callable[[bool], Awaitable[list[str]]]


class Jobs(Runs):
    """All of it, by name: also what this app does not define."""

    def __init__(self, database: Database, trigger: Trigger, sync: Sync) -> None:
        super().__init__(database)
        self._trigger, self._sync = trigger, sync

    async def trigger(
        self, name: str, payload: Mapping[str, object] | None = None, **options: Unpack[JobOptions]
    ) -> JobHandle[Any]:
        """Enqueue by name; options as for `job.options(…)`. The payload is checked at claim."""
        return await self._trigger(name, payload or {}, options)

    async def definitions(self) -> dict[str, EffectiveDefinition]:
        """All definitions as they count now, by key."""
        return await engine.registry.effective(self._database)

    async def enable(self, name: str) -> None:
        """Let a definition's jobs be enqueued again."""
        await self._override(name, {"is_active": True})

    async def disable(self, name: str) -> None:
        """Refuse new jobs of a definition; those there are run on."""
        await self._override(name, {"is_active": False})

    async def sync_definitions(self, *, force: bool = False) -> "list[str]":
        """Bring the code's definitions into the database; answers what changed. `force` clears overrides."""
        return await self._sync(force)

    async def _override(self, name: str, overrides: Mapping[str, object]) -> None:
        if not await engine.registry.override(self._database, name, overrides):
            raise UnknownDefinition(name)
