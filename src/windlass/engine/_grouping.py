"""Single enqueues awaited at the same time become one insert: while one is in flight, the next collects."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from windlass.db import Database
from windlass.engine._enqueue import enqueue
from windlass.engine._shortcut import Shortcut
from windlass.model import Enqueued, NewJob
from windlass.model.errors import UsageError

_MOST = 1000


class Grouping:
    """`enqueue` one job; alone it goes at once and by the shortest way, in company together."""

    def __init__(self, opened: Callable[[], Awaitable[Database]]) -> None:
        self._opened = opened
        self._shortcut = Shortcut()
        self._waiting: list[tuple[NewJob, asyncio.Future[Enqueued]]] = []
        self._task: asyncio.Task[None] | None = None
        self._busy = False

    async def enqueue(self, job: NewJob) -> Enqueued:
        """Store it; raises what is wrong with it, and only with it."""
        if not self._busy:
            self._busy = True
            try:
                return await self._shortcut.enqueue(await self._opened(), job)
            finally:
                self._busy = False
                self._go_on()
        promise: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, promise))
        return await promise

    def _go_on(self) -> None:
        if self._waiting and not self._busy:
            self._busy = True
            self._task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                await self._store_group(group)
        finally:
            self._busy = False

    async def _store_group(self, group: Sequence[tuple[NewJob, "asyncio.Future[Enqueued]"]]) -> None:
        wanted = [(job, promise) for job, promise in group if not promise.done()]
        try:
            done = await enqueue(await self._opened(), [job for job, _ in wanted])
        except UsageError as problem:
            await self._one_by_one(wanted, problem)
        except BaseException as problem:
            _reject(wanted, problem)
        else:
            for (_, promise), enqueued in zip(wanted, done, strict=True):
                if not promise.done():
                    promise.set_result(enqueued)

    async def _one_by_one(self, group: Sequence[tuple[NewJob, "asyncio.Future[Enqueued]"]], problem: UsageError) -> None:
        """One job of the group is wrong, and nothing was stored: the others must not suffer for it."""
        if len(group) == 1:
            _reject(group, problem)
            return
        for one in group:
            await self._store_group([one])


def _reject(group: Sequence[tuple[NewJob, "asyncio.Future[Enqueued]"]], problem: BaseException) -> None:
    for _, promise in group:
        if not promise.done():
            promise.set_exception(problem)
