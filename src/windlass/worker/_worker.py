"""A worker: claims ahead of need, runs, settles. It knows a Transport, never the database."""

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from uuid import UUID

import structlog

from windlass.lifecycle import Loop
from windlass.model import ClaimedJob, Enqueued, Held, NewJob, Settled, WorkerInfo
from windlass.transports import Pulse, Transport
from windlass.worker._ending import of_error, of_result, of_stop
from windlass.worker._lifeline import BEAT_SECONDS, Lifeline, Vitals
from windlass.worker._memory import resident_bytes
from windlass.worker._running import Prepared, Running, Stop
from windlass.worker._settler import Settler
from windlass.worker._voice import Voice
from windlass.worker.context import Said, Wire
from windlass.worker.executors import Executors
from windlass.worker.handlers import Handlers

_log = structlog.get_logger("windlass.worker")
_CLAIM, _MOST_AHEAD, _AHEAD_SECONDS = 500, 1000, 0.05
_DEADLINE_TICK, _REFRESH = 0.1, 5.0
_LAST_WORDS = 5.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works."""

    concurrency: int = 100
    grace: float = 30.0
    poll: float = 1.0
    lease_seconds: float = 30.0


class Worker:
    """Runs jobs until stopped. `run` returns when all that was held is settled or given back."""

    def __init__(self, transport: Transport, handlers: Handlers, info: WorkerInfo, options: WorkerOptions) -> None:
        self._transport, self._handlers, self._info, self._options = transport, handlers, info, options
        self._prepared: dict[UUID, Prepared] = {}
        self._held: dict[int, Running] = {}
        self._buffer: deque[Running] = deque()
        self._active = 0
        self._ended_since, self._since, self._ahead = 0, time.monotonic(), 0
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self.joined, self.ended = asyncio.Event(), asyncio.Event()
        self.fenced = False
        self._background: set[asyncio.Task[None]] = set()
        self._settler = Settler(transport, self._settled)
        self._voice = Voice(transport)
        self._lifeline = Lifeline(transport, self._vitals, self._heard_aside, min(BEAT_SECONDS, options.lease_seconds / 6))
        self._claiming = Loop("claim", self._claim)
        self._watching = Loop("deadlines", self._watch)
        self._refreshing = Loop("definitions", self._refresh)
        wire = Wire(self._say, self._enqueue, self._is_canceled)
        self._executors = Executors(wire, handlers.source, options.concurrency, transport.tenant_slug)

    async def run(self) -> None:
        """Join, work until `stop`, leave."""
        self._asyncio, self._thread = asyncio.get_running_loop(), threading.get_ident()
        await self._transport.open(self._info)
        await self._refresh()
        for loop in (self._claiming, self._watching, self._refreshing, self._voice):
            loop.start()
        self._lifeline.start()
        self.joined.set()
        _log.info("worker started", name=self._info.name, queues=self._info.queues, concurrency=self._options.concurrency)
        await self._stopping.wait()
        await self._leave()
        self.ended.set()

    def stop(self) -> None:
        """Stop gracefully; a second call hurries."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def poke(self) -> None:
        """Somebody may have asked for a cancel."""
        self._lifeline.poke()

    def rouse(self) -> None:
        """The database is back: try again at once what it was away for."""
        self._claiming.wake()
        self._refreshing.wake()

    # -- claim -------------------------------------------------------------------------------------------

    async def _claim(self) -> float:
        want = self._room()
        if want <= 0:
            return 60.0
        jobs = await self._transport.claim(want, self._held)
        if jobs:
            self._take(jobs)
            if len(jobs) < want:
                await asyncio.sleep(0)  # these are all there are: let them begin before asking for more
            return 0.0
        await self._transport.idle(self._options.poll)
        return 0.0

    def _room(self) -> int:
        """How many more to hold: what can start at once, and what will be run in the next moments, so that
        fast jobs never wait for a claim and slow ones are left to others.
        """
        here = self._active + len(self._buffer)
        room = self._options.concurrency + self._ahead - here
        if here >= self._options.concurrency and room < min(_CLAIM, self._ahead // 2):
            return 0
        return min(room, _CLAIM)

    def _measure(self) -> None:
        """Claim ahead as much as ends in a moment at the present speed."""
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed > _AHEAD_SECONDS:
            self._ahead = min(int(self._ended_since / elapsed * _AHEAD_SECONDS), _MOST_AHEAD)
            self._ended_since, self._since = 0, now

    def _take(self, jobs: Sequence[ClaimedJob]) -> None:
        renew_at = time.monotonic() + self._options.lease_seconds / 3
        strangers: list[Held] = []
        for job in jobs:
            prepared = self._prepared.get(job.definition_id)
            if prepared is None:
                strangers.append(Held(job.id, job.lease))
                continue
            running = Running(job, prepared, renew_at)
            self._held[job.lease] = running
            self._buffer.append(running)
        if strangers:
            self._spawn(self._give_back_strangers(strangers))
        self._fill()

    async def _give_back_strangers(self, strangers: Sequence[Held]) -> None:
        """A definition newer than our last look: leave its jobs to those who know it."""
        await self._refresh()
        await self._transport.release(strangers)

    # -- run ---------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        while self._buffer and self._active < self._options.concurrency:
            running = self._buffer.popleft()
            self._active += 1
            running.task = self._asyncio.create_task(self._run(running))

    async def _run(self, running: Running) -> None:
        running.began = time.monotonic()
        timeout = running.prepared.definition.timeout_seconds
        if timeout is not None:
            running.deadline = running.began + timeout
        try:
            end = of_result(running, await self._executors.run(running), random.random())  # noqa: S311
        except asyncio.CancelledError as stopped:
            end = of_stop(running, random.random()) if running.stop else of_error(running, stopped, random.random())  # noqa: S311
        except BaseException as problem:
            end = of_error(running, problem, random.random())  # noqa: S311
        self._ended(running, end)

    def _ended(self, running: Running, end: Settled | None) -> None:
        self._active -= 1
        self._ended_since += 1
        running.deadline = None
        self._voice.ended(running)
        if end is not None:
            self._settler.put(end)
        elif running.stop is Stop.LOST:
            self._held.pop(running.job.lease, None)
        self._fill()
        if not self._buffer or len(self._buffer) == self._ahead // 2:
            self._measure()
            self._claiming.wake()

    def _settled(self, end: Settled, was_held: bool) -> None:
        running = self._held.pop(end.lease, None)
        if not was_held and running is not None:
            _log.warning("lease lost: what the job did is not recorded", job_id=str(end.job_id),
                         attempt=running.job.attempt)  # fmt: skip

    # -- stop single jobs --------------------------------------------------------------------------------

    async def _watch(self) -> float:
        now = time.monotonic()
        for running in list(self._held.values()):
            if running.deadline is not None and now > running.deadline and running.stop is None:
                self._make_stop(running, Stop.TIMEOUT)
            elif running.stop is not None and now > running.deadline_of_patience:
                self._nudge(running)
        return _DEADLINE_TICK

    def _make_stop(self, running: Running, why: Stop, reason: str = "") -> None:
        if running.stop is not None or (running.task is not None and running.task.done()):
            return
        running.stop, running.reason = why, reason
        if running.task is not None:
            self._nudge(running)
        elif running in self._buffer:
            self._buffer.remove(running)
            end = of_stop(running, 0.5)
            if end is not None:
                self._settler.put(replace(end, spends_attempt=False))
            elif why is Stop.LOST:
                self._held.pop(running.job.lease, None)

    def _nudge(self, running: Running) -> None:
        """Cancel the task; one that takes no notice is told again, and talked about."""
        running.nudges += 1
        running.deadline_of_patience = time.monotonic() + min(2.0**running.nudges, 60.0)
        if running.task is not None and not running.task.done():
            running.task.cancel(running.stop.value if running.stop else None)
            if running.nudges > 2:  # noqa: PLR2004
                _log.warning("a job takes no notice of being stopped", job_id=str(running.job.id),
                             definition=running.prepared.definition.key, nudges=running.nudges)  # fmt: skip

    # -- lifeline ----------------------------------------------------------------------------------------

    def _vitals(self) -> Vitals:
        """In the lifeline's thread: `list` of a dict's values is one step to the interpreter."""
        now = time.monotonic()
        due = [running.held for running in list(self._held.values()) if running.renew_at <= now]
        return Vitals(self._active, resident_bytes(), due)

    def _heard_aside(self, vitals: Vitals, pulse: Pulse) -> None:
        renew_at = time.monotonic() + self._options.lease_seconds / 3
        for held in vitals.renew:
            running = self._held.get(held.lease)
            if running is not None:
                running.renew_at = renew_at
        if not pulse.alive or pulse.lost or pulse.cancels:
            self._asyncio.call_soon_threadsafe(self._heard, pulse)

    def _heard(self, pulse: Pulse) -> None:
        for lease, reason in pulse.cancels.items():
            running = self._held.get(lease)
            if running is not None:
                self._make_stop(running, Stop.CANCELED, reason)
        for lease in pulse.lost:
            running = self._held.get(lease)
            if running is not None:
                self._make_stop(running, Stop.LOST)
        if not pulse.alive and not self.fenced:
            self._fence()

    def _fence(self) -> None:
        """Declared dead: frozen or cut off too long, or another worker took the name. All is lost."""
        self.fenced = True
        _log.error("this worker was declared dead; it stops", name=self._info.name, held=len(self._held))
        for running in list(self._held.values()):
            self._make_stop(running, Stop.LOST)
        self._hurry.set()
        self._stopping.set()

    # -- what jobs say -----------------------------------------------------------------------------------

    def _say(self, job: ClaimedJob, said: Said) -> None:
        if threading.get_ident() == self._thread:
            self._said(job, said)
        else:
            self._asyncio.call_soon_threadsafe(self._said, job, said)

    def _said(self, job: ClaimedJob, said: Said) -> None:
        running = self._held.get(job.lease)
        if running is not None and running.stop is not Stop.LOST:
            self._voice.said(running, said)

    def _enqueue(self, job: ClaimedJob, jobs: Sequence[NewJob]) -> "Future[list[Enqueued]]":
        return asyncio.run_coroutine_threadsafe(self._enqueue_children(job, jobs), self._asyncio)

    async def _enqueue_children(self, job: ClaimedJob, jobs: Sequence[NewJob]) -> list[Enqueued]:
        tenant = await self._transport.tenant_slug(job.tenant_id)
        return await self._transport.enqueue([replace(child, tenant=tenant, parent_id=job.id) for child in jobs])

    def _is_canceled(self, job: ClaimedJob) -> bool:
        running = self._held.get(job.lease)
        return running is None or running.stop is not None

    # -- the rest ----------------------------------------------------------------------------------------

    async def _refresh(self) -> float:
        found = await self._transport.definitions()
        self._prepared = {i: Prepared(self._handlers[d.key], d) for i, d in found.items() if d.key in self._handlers}
        return _REFRESH

    async def _leave(self) -> None:
        """Stop claiming, give back what has not started, let what runs finish, give back the rest."""
        self._transport.wake()
        await self._claiming.stop()
        await self._give_back_unstarted()
        await self._finish_running()
        for loop in (self._watching, self._refreshing):
            await loop.stop()
        await self._settler.drained()
        await self._voice.stop()
        await self._give_back([r.held for r in self._held.values() if r.stop is not Stop.LOST])
        self._lifeline.stop()
        await asyncio.to_thread(self._lifeline.join, _LAST_WORDS)
        if not self.fenced:
            await self._transport.close()
        await self._executors.close()
        _log.info("worker stopped", name=self._info.name, fenced=self.fenced)

    async def _give_back_unstarted(self) -> None:
        unstarted, self._buffer = list(self._buffer), deque()
        for running in unstarted:
            self._held.pop(running.job.lease, None)
        await self._give_back([running.held for running in unstarted])

    async def _finish_running(self) -> None:
        tasks = [r.task for r in self._held.values() if r.task is not None and not r.task.done()]
        if tasks and not self.fenced:
            hurried = asyncio.create_task(self._hurry.wait())
            done = asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.wait([asyncio.ensure_future(done), hurried], timeout=self._options.grace, return_when="FIRST_COMPLETED")
            hurried.cancel()
        for running in list(self._held.values()):
            self._make_stop(running, Stop.SHUTDOWN)
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS * 2)

    async def _give_back(self, held: Sequence[Held]) -> None:
        if held and not self.fenced:
            await self._transport.release(held)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = self._asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
