"""From a handler's kind to the way it runs; what comes back is an outcome, or a bare result."""

import asyncio
import contextvars
import functools
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

from windlass.model import ClaimedJob, Done, Outcome, Retry
from windlass.model.argv import render
from windlass.worker._running import Running
from windlass.worker.context import JobContext, Logged, Wire, current_job
from windlass.worker.executors._command import Command, CommandResult, run_command
from windlass.worker.executors._process import ProcessPool, Raised

_GRACE = 5.0


class Executors:
    """What runs jobs in one worker. Threads and processes are made when first needed."""

    def __init__(
        self,
        wire: Wire,
        source: str | None,
        threads: int,
        tenant_slug: Callable[[UUID], Awaitable[str]],
        *,
        grace: float = _GRACE,
    ) -> None:
        self._wire = wire
        self._tenant_slug = tenant_slug
        self._grace = grace
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="windlass-job")
        self._processes = ProcessPool(source or "", _processors(), grace=grace)

    async def run(self, running: Running) -> object:
        """Run the job to its end; raises what its code raises."""
        handler = running.prepared.handler
        match handler.executor:
            case "async":
                return await self._run_async(running)
            case "thread":
                return await self._run_thread(running)
            case "process":
                return await self._run_process(running)
            case "command":
                return await self._run_command(running)

    async def close(self) -> None:
        """End idle threads and child processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._processes.close()

    async def _run_async(self, running: Running) -> object:
        handler = running.prepared.handler
        arguments = handler.decode(running.job.payload)
        context = self._context(running)
        current_job.set(context)
        assert handler.function is not None
        if handler.wants_context:
            return await handler.function(context, **arguments)
        return await handler.function(**arguments)

    async def _run_thread(self, running: Running) -> object:
        """A thread cannot be killed: when it is to stop it is told (`ctx.canceled`), and waited for."""
        handler = running.prepared.handler
        arguments = handler.decode(running.job.payload)
        context = self._context(running)
        current_job.set(context)
        assert handler.function is not None
        given = (context,) if handler.wants_context else ()
        call = functools.partial(contextvars.copy_context().run, handler.function, *given, **arguments)
        work = asyncio.get_running_loop().run_in_executor(self._threads, _call, call)
        return await _to_its_end(work)

    async def _run_process(self, running: Running) -> object:
        job, handler = running.job, running.prepared.handler
        handler.decode(job.payload)
        key = handler.definition.key
        running.deadline = None  # while it waits for a process of its own

        def begin() -> datetime | None:
            running.begin()
            return _deadline(running)

        answer = await self._processes.run(key, job, key, job.payload, begin, self._wire)
        return Retry(error=answer.error) if isinstance(answer, Raised) else answer

    async def _run_command(self, running: Running) -> Outcome:
        job, definition = running.job, running.prepared.definition
        payload = running.prepared.handler.decode(job.payload)
        argv = render(definition.argv or (), await self._facts(job), payload)

        def hear(stream: str, text: str) -> None:
            self._wire.say(job, Logged("error" if stream == "stderr" else "info", text, {"stream": stream}))

        def keep(result: CommandResult) -> None:
            running.exit_code = result.exit_code
            running.stdout_tail, running.stderr_tail = result.stdout_tail, result.stderr_tail

        result = await run_command(Command(argv, definition.env, self._grace), hear, keep)
        if result.exit_code == 0:
            return Done({"exit_code": 0})
        return Retry(error=f"The command ended with exit code {result.exit_code}.")

    async def _facts(self, job: ClaimedJob) -> Mapping[str, str]:
        slug = await self._tenant_slug(job.tenant_id)
        return {"tenant_id": str(job.tenant_id), "tenant_slug": slug, "job_id": str(job.id), "attempt": str(job.attempt)}

    def _context(self, running: Running) -> JobContext:
        return JobContext(running.job, running.prepared.handler.definition.key, self._wire, running.deadline)


def _call(function: Callable[[], object]) -> object:
    """A StopIteration cannot be told from one thread to another: whoever waits would wait for ever."""
    try:
        return function()
    except StopIteration as problem:
        msg = "The job raised StopIteration."
        raise RuntimeError(msg) from problem


async def _to_its_end(work: "asyncio.Future[object]") -> object:
    """Wait for a thread whatever happens, and only then pass a cancel on."""
    canceled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as told:
            canceled = told
        except BaseException:
            break  # it is the thread's own, and raised below
    if canceled is not None:
        raise canceled
    return work.result()


def _processors() -> int:
    """How many processors this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _deadline(running: Running) -> datetime | None:
    timeout = running.prepared.definition.timeout_seconds
    return None if timeout is None else datetime.now(UTC) + timedelta(seconds=timeout)
