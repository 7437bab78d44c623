"""Laws of the engine, under any sequence of what can happen: no job lost, a job in exactly one place, at most one
attempt records a result, attempts within the budget, states move only as allowed, dedupe holds."""

import asyncio
import time
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from windlass import engine
from windlass.db import Database, Statement
from windlass.model import AttemptStatus, ClaimedJob, Definition, Held, JobState, NewJob, Settled, WorkerInfo
from windlass.model.states import TRANSITIONS

_PLACES = Statement(
    "laws.places",
    """
select j.id,
       (select count(*) from windlass.queue q where q.job_id = j.id) as queued,
       (select count(*) from windlass.parked p where p.job_id = j.id) as parked,
       (select count(*) from windlass.leases l where l.job_id = j.id) as leased,
       (select count(*) from windlass.attempts a where a.job_id = j.id and a.state is not null) as ended,
       (select count(*) from windlass.attempts a where a.job_id = j.id and a.result is not null) as results,
       (select coalesce(max(a.attempt), 0) from windlass.attempts a where a.job_id = j.id) as attempts,
       coalesce((select p.why from windlass.parked p where p.job_id = j.id),
                (select 'running' from windlass.leases l where l.job_id = j.id),
                (select 'queued' from windlass.queue q where q.job_id = j.id),
                (select a.state from windlass.attempts a where a.job_id = j.id and a.state is not null)) as state,
       (select count(*) from windlass.dependencies d where d.job_id = j.id) as parents
from windlass.jobs j""",
)
_DUE_NOW = Statement("laws.due_now", "update windlass.parked set due_at = clock_timestamp() where due_at is not null")
_KILL = Statement("laws.kill", "update windlass.workers set last_seen_at = clock_timestamp() - interval '1 hour' where id = $1")
_EXPIRE = Statement(
    "laws.expire", "update windlass.leases set expires_at = clock_timestamp() - interval '1 hour' where worker_id = $1"
)
_WIPE = Statement(
    "laws.wipe",
    "truncate windlass.jobs, windlass.queue, windlass.parked, windlass.leases, windlass.attempts, windlass.dependencies, windlass.dedupe, windlass.workers",
)


@dataclass
class Known:
    """What the model knows of a job."""

    each: int
    key: str | None
    state: JobState = JobState.QUEUED
    results: int = 0
    attempts: int = 0
    spent_before: int = 0
    asked: bool = False


@dataclass
class Hand:
    """A worker, and what it believes to hold."""

    claims: engine.Claim
    id: UUID
    believes: list[ClaimedJob] = field(default_factory=list)


class EngineMachine(RuleBasedStateMachine):
    """Everything that can happen to jobs, in any order."""

    db: Database
    run: asyncio.Runner

    def do(self, work):
        return self.run.run(work)

    @initialize()
    def begin(self) -> None:
        self.do(self.db.rows(_WIPE))
        self.tenant = self.do(engine.reads.tenant_id(self.db, "default"))
        self.queue = self.do(engine.registry.queue_ids(self.db, ["default"]))["default"]
        self.jobs: dict[UUID, Known] = {}
        self.hands = [self.join() for _ in range(2)]
        self.true: dict[UUID, int] = {}
        self.owner: dict[int, UUID] = {}

    def join(self) -> Hand:
        info = WorkerInfo(uuid4(), uuid4().hex, "h", 1, "0", ("default",), ("noop",), 1)
        self.do(engine.workers.join(self.db, info))
        return Hand(engine.Claim(self.queue, info.id), info.id)

    @rule(
        count=st.integers(1, 4), priority=st.sampled_from([1, 100]), budget=st.integers(1, 3), delay=st.sampled_from([None, 60.0])
    )
    def enqueue(self, count, priority, budget, delay) -> None:
        made = self.do(
            engine.enqueue(self.db, [NewJob("noop", priority=priority, max_attempts=budget, delay=delay) for _ in range(count)])
        )
        for one in made:
            self.jobs[one.id] = Known(budget, None, JobState.SCHEDULED if delay else JobState.QUEUED)

    @rule(key=st.sampled_from(["a", "b"]))
    def enqueue_with_a_key(self, key) -> None:
        (made,) = self.do(engine.enqueue(self.db, [NewJob("noop", max_attempts=2, dedupe_key=key)]))
        live = [i for i, job in self.jobs.items() if job.key == key and not job.state.ended]
        assert [made.id] == live if made.deduplicated else live == []
        if not made.deduplicated:
            self.jobs[made.id] = Known(2, key)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def enqueue_a_child(self, data) -> None:
        parents = data.draw(st.lists(st.sampled_from(sorted(self.jobs)), min_size=1, max_size=2, unique=True))
        (made,) = self.do(engine.enqueue(self.db, [NewJob("noop", max_attempts=1, depends_on=tuple(parents))]))
        self.jobs[made.id] = Known(1, None, JobState.BLOCKED)

    @rule(which=st.integers(0, 1), want=st.integers(1, 5))
    def claim(self, which, want) -> None:
        hand = self.hands[which]
        for job in self.do(hand.claims.take(self.db, want, None)):
            assert self.jobs[job.id].state is JobState.QUEUED
            assert job.attempt <= job.max_attempts
            self.jobs[job.id].state = JobState.RUNNING
            hand.believes.append(job)
            self.true[job.id], self.owner[job.lease] = job.lease, hand.id

    @precondition(lambda self: any(hand.believes for hand in self.hands))
    @rule(
        data=st.data(), end=st.sampled_from(["succeeded", "failed", "retry", "later", "snooze", "release"]), forget=st.booleans()
    )
    def end(self, data, end, forget) -> None:
        hand = data.draw(st.sampled_from([h for h in self.hands if h.believes]))
        job = data.draw(st.sampled_from(hand.believes))
        holds = self.true.get(job.id) == job.lease
        if forget:
            hand.believes.remove(job)
        if end == "release":
            self.do(engine.release(self.db, self.owner[job.lease], [Held(job.id, job.lease)]))
            told = holds
        else:
            told = job.lease in self.do(engine.settle(self.db, self.owner[job.lease], [self.settled(job, end)]))
        assert told == holds
        if holds:
            del self.true[job.id]
            self.became(job, end)

    def settled(self, job: ClaimedJob, end: str) -> Settled:
        base = Settled(job.id, job.lease, AttemptStatus.FAILED, ended=time.monotonic())
        match end:
            case "succeeded":
                base.status, base.state, base.result = AttemptStatus.SUCCEEDED, JobState.SUCCEEDED, "1"
            case "failed":
                base.state = JobState.FAILED
            case "snooze":
                base.retry_after, base.spends_attempt = 0.0, False
            case _ if job.attempt >= job.max_attempts:
                base.state = JobState.DEAD_LETTER
            case "retry":
                base.retry_after = 0.0
            case _:
                base.retry_after = 60.0
        return base

    def became(self, job: ClaimedJob, end: str) -> None:
        known = self.jobs[job.id]
        spent = job.attempt >= job.max_attempts
        back = JobState.CANCELED if known.asked else JobState.QUEUED
        known.asked = False
        known.state = {
            "succeeded": JobState.SUCCEEDED,
            "failed": JobState.FAILED,
            "retry": JobState.DEAD_LETTER if spent else back,
            "later": JobState.DEAD_LETTER if spent else back if back is JobState.CANCELED else JobState.SCHEDULED,
        }.get(end, back)
        known.results += end == "succeeded"

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        became = self.do(engine.cancel(self.db, self.tenant, [job_id], "law"))
        state = self.jobs[job_id].state
        assert (job_id in became.asked) == (state is JobState.RUNNING)
        self.jobs[job_id].asked |= job_id in became.asked
        assert (job_id in became.ended) == (not state.ended and state is not JobState.RUNNING)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def retry(self, data) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        known = self.jobs[job_id]
        taken = self.do(engine.retry(self.db, self.tenant, [job_id]))
        key_is_free = known.key is None or all(job.state.ended for job in self.jobs.values() if job.key == known.key)
        assert (job_id in taken) == (known.state.ended and key_is_free)
        if taken:
            known.state, known.spent_before, known.asked = JobState.QUEUED, known.attempts, False

    @rule()
    def time_passes(self) -> None:
        self.do(self.db.rows(_DUE_NOW))
        self.do(engine.Due().promote(self.db, 1.0))
        self.do(engine.recheck_blocked(self.db, 1.0))

    @rule(which=st.integers(0, 1))
    def a_worker_dies(self, which) -> None:
        hand = self.hands[which]
        self.do(self.db.rows(_KILL, hand.id))
        self.do(self.db.rows(_EXPIRE, hand.id))
        self.do(engine.rescue(self.db, sweep=True))
        for job in hand.believes:
            if self.true.get(job.id) == job.lease:
                del self.true[job.id]
        late = self.join()
        late.believes = hand.believes  # the dead may speak again: nothing it says may count
        self.hands[which] = late

    @invariant()
    def the_laws_hold(self) -> None:
        if not hasattr(self, "jobs"):
            return
        rows = {row["id"]: row for row in self.do(self.db.rows(_PLACES))}
        assert rows.keys() == self.jobs.keys(), "a job was lost, or came from nowhere"
        for job_id, row in rows.items():
            known = self.jobs[job_id]
            places = row["queued"] + row["parked"] + row["leased"] + row["ended"]
            assert places == 1, f"{job_id} is in {places} places"
            known.attempts = row["attempts"]
            assert known.attempts <= known.spent_before + known.each
            assert row["results"] == known.results, "a result was lost, or recorded by who no longer held the job"
            self.moved(known, JobState(row["state"]))

    def moved(self, known: Known, now: JobState) -> None:
        """The engine may move a job further than the model knows (dependents, lost leases), but only as allowed."""
        if now is not known.state:
            reachable = TRANSITIONS[known.state]
            further = {state for step in reachable for state in TRANSITIONS[step]} if known.state is JobState.BLOCKED else set()
            assert now in reachable | further, f"{known.state} became {now}"
            known.state = now


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(2))
def test_the_laws_of_the_engine(windlass_url, chunk):
    with asyncio.Runner() as runner:
        database = runner.run(Database.open(windlass_url, pinned=True, size=5))
        runner.run(engine.registry.sync(database, "laws", [Definition("noop")]))
        machine = type(f"Laws{chunk}", (EngineMachine,), {"db": database, "run": runner})
        run_state_machine_as_test(
            machine,
            settings=settings(max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)),
        )
        runner.run(database.close())
