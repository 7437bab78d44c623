"""What jobs say while the database is away, or from threads: bounded, whole, in order."""

import asyncio
import threading
from types import SimpleNamespace
from uuid import UUID

from waiting import eventually
from windlass.model import ClaimedJob
from windlass.model.errors import DatabaseError, Disconnected
from windlass.worker import _voice
from windlass.worker._running import Running
from windlass.worker._voice import Voice
from windlass.worker.context import Logged, Progressed, Spent


class Post:
    """A transport that ships, unless it is told not to."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.lines, self.told = [], []

    async def ship(self, lines):
        if self.problem:
            raise self.problem
        self.lines += lines

    async def progress(self, said):
        if self.problem:
            raise self.problem
        self.told += said


def running(lease: int = 1) -> Running:
    job = ClaimedJob(UUID(int=lease), lease, UUID(int=2), UUID(int=3), 1, 1, 100, "{}")
    return Running(job, SimpleNamespace(), 0.0, 0.0)


async def test_what_waits_is_bounded_by_its_size_fields_included(monkeypatch):
    monkeypatch.setattr(_voice, "_MOST_WAITING_SIZE", 100_000)
    post = Post()
    post.problem = Disconnected("gone")
    voice = Voice(post)
    voice.start()
    for one in [running(number) for number in range(50)]:
        for _ in range(20):
            voice.said(one, Logged("info", "x" * 1000, {"more": "y" * 9000}))
    assert voice._size < 150_000
    post.problem = None
    await voice.stop()
    assert voice._size == 0
    assert len(post.lines) < 70
    assert any("truncated" in line.message for line in post.lines)


async def test_an_attempt_that_says_too_much_is_cut_by_the_size_of_its_fields_too(monkeypatch):
    monkeypatch.setattr(_voice, "_MOST_SIZE", 100_000)
    voice, talker = Voice(Post()), running()
    voice.start()
    for _ in range(100):
        voice.said(talker, Logged("info", "", {"more": "y" * 9000}))
    assert talker.lines < 20
    await voice.stop()


async def test_threads_that_flood_while_the_loop_is_busy_queue_nothing_on_it(monkeypatch):
    """They used to leave a callback for each line, with all of its text."""
    voice, woken = Voice(Post()), []
    voice.start()
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(voice, "_asyncio", SimpleNamespace(call_soon_threadsafe=lambda *told: woken.append(told)))
    flooding = [running(number) for number in range(4)]
    threads = [threading.Thread(target=flood, args=(voice, one)) for one in flooding]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # the loop is blocked meanwhile
    assert len(woken) == 1
    assert max(len(line.message) for line in voice._lines) <= 16_384
    monkeypatch.setattr(voice, "_asyncio", loop)
    voice._loop.wake()
    await eventually(lambda: not voice._lines)
    shipped = voice._transport.lines
    for one in flooding:
        mine = [line.seq for line in shipped if line.job_id == one.job.id]
        assert mine == list(range(mine[0], mine[0] + 500))
    await voice.stop()


def flood(voice: Voice, one: Running) -> None:
    for _ in range(500):
        voice.said(one, Logged("info", "x" * 20_000, {}))
        voice.said(one, Spent(1))


async def test_progress_that_cannot_be_noted_does_not_keep_the_lines():
    post = Post()
    voice, one = Voice(post), running()

    async def refuse(_):
        raise DatabaseError("no")

    post.progress = refuse
    voice.start()
    voice.said(one, Progressed(0.5, None))
    voice.said(one, Logged("info", "line", {}))
    voice.ended(one)
    await eventually(lambda: post.lines)
    await voice.stop()


async def test_lines_that_cannot_be_shipped_do_not_keep_a_worker_from_leaving():
    post = Post()
    voice, one = Voice(post), running()
    voice.start()
    await asyncio.sleep(0)
    post.problem = Disconnected("gone")
    voice.said(one, Logged("info", "line", {}))
    await asyncio.wait_for(voice.stop(), 5)
    assert len(voice._lines) == 1
