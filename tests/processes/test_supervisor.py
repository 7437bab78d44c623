"""The parent of worker processes: what it bears, and what it inherits."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from windlass.processes.supervisor import Supervisor

_UP_AND_REST = "import os, signal; os.write({tether}, b'.'); signal.pause()"
_PR_SET_CHILD_SUBREAPER = 36


class Watched(Supervisor):
    """Starts children that do nothing, and cannot start any while told so."""

    def __init__(self, count: int) -> None:
        super().__init__(lambda _, tether: [sys.executable, "-c", _UP_AND_REST.format(tether=tether)], "w", count)
        self.refusals = 0
        self.tried = asyncio.Event()

    async def _live(self, name: str) -> int:
        if self.refusals:
            self.refusals -= 1
            self.tried.set()
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return await super()._live(name)


async def _children(watched: Watched, count: int, besides: int = 0) -> dict[str, int]:
    async with asyncio.timeout(20):
        while len(found := {n: c.pid for n, c in watched._children.items() if c.pid != besides}) < count:
            await asyncio.sleep(0.02)
    return found


async def test_a_process_that_cannot_be_started_is_tried_again_and_the_others_live_on():
    watched = Watched(2)
    running = asyncio.create_task(watched.run())
    before = await _children(watched, 2)
    watched.refusals = 2
    os.kill(before["w-2"], signal.SIGKILL)
    after = await _children(watched, 2, besides=before["w-2"])
    assert watched.tried.is_set()
    assert after["w-1"] == before["w-1"]
    watched._hear()
    assert await running == 0


async def test_a_first_process_that_cannot_be_started_is_the_end(capfd):
    watched = Watched(2)
    watched.refusals = 1
    assert await watched.run() == 1
    assert not watched._children


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are inherited so only on Linux")
def test_orphans_are_reaped_and_whom_one_waits_for_is_not():
    """As the first process of a container would, whose role prctl gives to any."""
    program = f"""
        import asyncio, ctypes, json, os, subprocess, time
        from windlass.processes.orphans import Orphans, _zombies

        ctypes.CDLL(None).prctl({_PR_SET_CHILD_SUBREAPER}, 1, 0, 0, 0)
        mine = [subprocess.Popen(["sh", "-c", "exit 3"], start_new_session=new) for new in (False, True)]
        subprocess.run(["sh", "-c", "(exit 4) & (exit 5) &"], start_new_session=True)
        while len(list(_zombies())) < 4:
            time.sleep(0.01)
        orphans = Orphans()
        left = []
        for _ in range(2):
            asyncio.run(orphans.reap())
            left.append(sorted(pid for pid, _ in _zombies()))
        print(json.dumps([len(left[0]), left[1] == sorted(one.pid for one in mine), [one.wait() for one in mine]]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=30)
    assert json.loads(done.stdout) == [4, True, [3, 3]], done.stderr
