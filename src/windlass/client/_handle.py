"""A job that was enqueued, as its enqueuer holds it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Generic, Self, TypeVar
from uuid import UUID

from windlass.client._runs import Runs
from windlass.model import Enqueued, JobState, JobView
from windlass.model.errors import JobFailed, UsageError

R = TypeVar("R")
_FIRST_LOOK, _LONGEST_LOOK = 0.005, 0.25


class JobHandle(Generic[R]):
    """`id`, and what can be asked of the job. From `enqueue_on` with an asynchronous connection it must be
    awaited first.
    """

    def __init__(
        self, jobs: Callable[[], Awaitable[Runs]], tenant: str, read: Callable[[UUID, object], R],
        enqueued: Enqueued | None = None, pending: Awaitable[Enqueued] | None = None,
    ) -> None:  # fmt: skip
        self._jobs, self._tenant, self._read = jobs, tenant, read
        self._enqueued, self._pending = enqueued, pending

    def __await__(self) -> Generator[object, None, Self]:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._enqueued = yield from pending.__await__()
        return self

    def __repr__(self) -> str:
        return f"<job {self._enqueued.id if self._enqueued else '(not awaited)'}>"

    @property
    def id(self) -> UUID:
        """The job's id."""
        return self._known.id

    @property
    def deduplicated(self) -> bool:
        """Whether this is an earlier job with the same dedupe key, and no new one was made."""
        return self._known.deduplicated

    async def view(self) -> JobView:
        """The job as it is now."""
        return await (await self._jobs()).get(self.id, tenant=self._tenant)

    async def cancel(self, reason: str = "") -> JobState:
        """Cancel it."""
        return await (await self._jobs()).cancel(self.id, reason, tenant=self._tenant)

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - part of the SDK's contract
        """What the job returned, once it has, and as its function is annotated to return it. Raises JobFailed if it
        ended otherwise, TimeoutError if it takes longer than `timeout` seconds.
        """
        jobs = await self._jobs()
        deadline = None if timeout is None else time.monotonic() + timeout
        rest = _FIRST_LOOK
        while True:
            ended = await jobs.outcome(self.id, tenant=self._tenant)
            if ended is not None:
                return self._answer(*ended)
            left = rest if deadline is None else deadline - time.monotonic()
            if left <= 0:
                msg = f"Job {self.id} has not ended after {timeout:g} s."
                raise TimeoutError(msg)
            await asyncio.sleep(min(rest, left))
            rest = min(rest * 1.5, _LONGEST_LOOK)

    def _answer(self, state: JobState, result: object, error: str | None) -> R:
        if state is JobState.SUCCEEDED:
            return self._read(self.id, result)
        raise JobFailed(self.id, state, error)

    @property
    def _known(self) -> Enqueued:
        if self._enqueued is None:
            msg = "This enqueue was not awaited: on an asynchronous connection write `await job.enqueue_on(…)`."
            raise UsageError(msg)
        return self._enqueued
