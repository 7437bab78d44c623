"""A worker: claims ahead of need, runs, settles. It knows a Transport, never the database."""

import asyncio
import contextlib
import contextvars
import random
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import structlog

from windlass.lifecycle import Loop
from windlass.model import ClaimedJob, Enqueued, Held, NewJob, Settled, WorkerInfo
from windlass.model.errors import WindlassError
from windlass.transports import Pulse, Transport
from windlass.worker._ending import of_error, of_result, of_stop
from windlass.worker._leaving import LAST_WORDS, bounded
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
_LONGEST_AHEAD = 0.5  # what waits here for longer is for others to do
_MOST_UNWRITTEN = 2_000  # ends; so many come together when writing them is slow or stuck
_DEADLINE_TICK, _REFRESH = 0.1, 5.0


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
        self._cut_off = self._congested = False
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
        self._asyncio = asyncio.get_running_loop()
        self._clean = contextvars.copy_context()  # a job must not see what another has set
        try:
            await self._work()
        finally:
            self.ended.set()

    async def _work(self) -> None:
        await self._transport.open(self._info)
        await self._refresh()
        for loop in (self._claiming, self._watching, self._refreshing, self._voice):
            loop.start()
        self._lifeline.start()
        self.joined.set()
        _log.info("worker started", name=self._info.name, queues=self._info.queues, concurrency=self._options.concurrency)
        await self._stopping.wait()
        await self._leave()

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
        fast jobs never wait for a claim and slow ones are left to others. None while their ends could not be written.
        """
        self._congested = self._settler.unwritten > _MOST_UNWRITTEN
        if self._congested or self._cut_off:
            return 0
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
        now = time.monotonic()
        renew_at = now + self._options.lease_seconds / 3
        strangers: list[Held] = []
        for job in jobs:
            prepared = self._prepared.get(job.definition_id)
            if prepared is None:
                strangers.append(Held(job.id, job.lease))
                continue
            running = Running(job, prepared, now, renew_at)
            self._held[job.lease] = running
            self._buffer.append(running)
        if strangers:
            self._spawn(self._give_back_strangers(strangers))
        self._fill()

    async def _give_back_strangers(self, strangers: Sequence[Held]) -> None:
        """A definition newer than our last look: leave its jobs to those who know it."""
        with contextlib.suppress(WindlassError):
            await self._refresh()
        await self._give_back(strangers)

    # -- run ---------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        if self._stopping.is_set():
            return
        while self._buffer and self._active < self._options.concurrency:
            running = self._buffer.popleft()
            self._active += 1
            running.task = self._asyncio.create_task(self._run(running), context=self._clean.copy())

    async def _run(self, running: Running) -> None:
        running.begin()
        try:
            end = of_result(running, await self._executors.run(running), random.random())  # noqa: S311
        except BaseException as problem:
            # Whatever it raises while it is made to stop, that is how it stopped.
            end = of_stop(running, random.random()) if running.stop else of_error(running, problem, random.random())  # noqa: S311
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

    def _settled(self, ends: Sequence[Settled], held: set[int]) -> None:
        for end in ends:
            running = self._held.pop(end.lease, None)
            if end.lease not in held and running is not None:
                _log.warning("lease lost: what the job did is not recorded", job_id=str(end.job_id),
                             attempt=running.job.attempt)  # fmt: skip
        if self._congested:
            self._claiming.wake()

    # -- stop single jobs --------------------------------------------------------------------------------

    async def _watch(self) -> float:
        now = time.monotonic()
        self._feel_pulse(now)
        if self._buffer and now - self._buffer[0].taken > _LONGEST_AHEAD:
            self._ahead = 0
            self._spawn(self._give_back(self._take_unstarted()))
        for running in list(self._held.values()):
            if running.deadline is not None and now > running.deadline and running.stop is None:
                self._make_stop(running, Stop.TIMEOUT)
            elif running.stop is not None and now > running.deadline_of_patience:
                self._nudge(running)
        return _DEADLINE_TICK

    def _feel_pulse(self, now: float) -> None:
        """Who cannot be heard is about to be declared dead: it takes nothing new until it is heard again."""
        silent = now - self._lifeline.last_beat
        if self._cut_off == (silent > self._options.lease_seconds):
            return
        self._cut_off = not self._cut_off
        if self._cut_off:
            _log.error("no heartbeat gets through: nothing is claimed until one does", silent_seconds=round(silent, 1))
        self._claiming.wake()

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
        if not running.began:
            self._asyncio.call_soon(self._nudge, running)  # cancelled before its first step, it would not end as a job
            return
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
        """Stop claiming, give back what has not started, let what runs finish, give back the rest.

        The database may be away: each step has its bounds, and fails by itself. What could not be given back is taken
        back when its lease runs out.
        """
        self._leave_by = time.monotonic() + self._options.grace
        try:
            self._transport.wake()
            await bounded("end of claiming", self._claiming.stop())
            await asyncio.gather(bounded("giving back", self._give_back(self._take_unstarted())), self._finish_running())
            await self._say_all()
        finally:
            self._settler.abandon()
            self._lifeline.stop()
            await bounded("end of child processes", self._executors.close(), LAST_WORDS * 2)
        await bounded("last heartbeat", asyncio.to_thread(self._lifeline.join, LAST_WORDS))
        await self._give_back_stuck()
        if not self.fenced:
            await bounded("leaving", self._transport.close())
        _log.info("worker stopped", name=self._info.name, fenced=self.fenced)

    def _take_unstarted(self) -> list[Held]:
        unstarted, self._buffer = self._buffer, deque()
        for running in unstarted:
            self._held.pop(running.job.lease, None)
        return [running.held for running in unstarted]

    async def _finish_running(self) -> None:
        tasks = [r.task for r in self._held.values() if r.task is not None and not r.task.done()]
        if tasks and not self.fenced:
            await self._in_grace(asyncio.gather(*tasks, return_exceptions=True))
        for running in list(self._held.values()):
            self._make_stop(running, Stop.SHUTDOWN)
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_WORDS * 2)

    async def _say_all(self) -> None:
        """Write the ends, which may wait for the database as long as the grace lasts; and what jobs have said."""
        ends = asyncio.ensure_future(self._settler.drained())
        await self._in_grace(ends)
        loops = (self._watching.stop(), self._refreshing.stop(), self._voice.stop())
        await asyncio.gather(bounded("writing ends", ends), *(bounded("end of a loop", stop) for stop in loops))
        ends.cancel()

    async def _in_grace(self, work: "asyncio.Future[Any]") -> None:
        """Wait for it until the grace is over, or somebody hurries."""
        hurried = asyncio.ensure_future(self._hurry.wait())
        grace = max(self._leave_by - time.monotonic(), 0.0)
        await asyncio.wait({work, hurried}, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()

    async def _give_back_stuck(self) -> None:
        """Last of all, since they run here until the process ends: a thread that takes no notice of being stopped."""
        unwritten = self._settler.leases
        stuck = [r.held for r in self._held.values() if r.stop is not Stop.LOST and r.job.lease not in unwritten]
        await bounded("giving back", self._give_back(stuck))

    async def _give_back(self, held: Sequence[Held]) -> None:
        if not held or self.fenced:
            return
        try:
            await self._transport.release(held)
        except Exception as problem:
            _log.warning("could not give back: leases will run out", jobs=len(held), error=str(problem))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = self._asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
