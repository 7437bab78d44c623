"""Commands as real processes: what they say, how they end, and that nothing of them is left."""

import asyncio
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from windlass.worker.executors import _command, _tree
from windlass.worker.executors._command import (
    LINE_CUT,
    MAX_LINE,
    MAX_LINES,
    MAX_TAIL,
    OUTPUT_TRUNCATED,
    Command,
    CommandNotStarted,
    CommandResult,
    run_command,
)

pytestmark = pytest.mark.timeout(60)

Run = Callable[[Coroutine[Any, Any, Any]], Any]
Said = list[tuple[str, str]]
MIB = 1024 * 1024
GRACE = 60.0
SOON = 20  # seconds: far from the grace and from the sleeps, and enough for a busy machine


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine to its end, on either kind of loop."""

    def in_loop(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(work)

    return in_loop


class Listener:
    """Takes in lines, and lets others wait for them."""

    def __init__(self) -> None:
        self.said: Said = []
        self._news = asyncio.Event()

    def __call__(self, stream: str, text: str) -> None:
        self.said.append((stream, text))
        self._news.set()

    def lines(self, stream: str = "stdout") -> list[str]:
        return [text for name, text in self.said if name == stream]

    async def heard(self, count: int) -> list[str]:
        """Wait for so many lines."""
        async with asyncio.timeout(20):
            while len(self.said) < count:
                self._news.clear()
                await self._news.wait()
        return [text for _, text in self.said]


def shell(script: str, grace: float = GRACE, **env: str) -> Command:
    return Command(["sh", "-c", script], env, grace)


def python(script: str, grace: float = GRACE) -> Command:
    return Command([sys.executable, "-u", "-c", script], {}, grace)


async def canceled(task: "asyncio.Task[Any]") -> float:
    """Cancel it; the seconds until it has ended."""
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return time.monotonic() - began


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not, once its last thread has ended."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def marked(mark: str) -> list[psutil.Process]:
    """All processes that have it among their arguments."""
    return [found for found in psutil.process_iter() if mark in " ".join(_arguments(found))]


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("yes | head -c 9; exit 3", 3)])
def test_the_exit_code_is_the_programs(run: Run, script: str, code: int) -> None:
    assert run(run_command(shell(script), Listener())).exit_code == code


def test_lines_arrive_by_stream_with_their_tails(run: Run) -> None:
    listener = Listener()
    script = "for i in 1 2 3; do echo out $i; echo err $i >&2; done; printf 'no newline'"
    result: CommandResult = run(run_command(shell(script), listener))
    assert listener.lines() == ["out 1", "out 2", "out 3", "no newline"]
    assert listener.lines("stderr") == ["err 1", "err 2", "err 3"]
    assert result == CommandResult(0, "out 1\nout 2\nout 3\nno newline", "err 1\nerr 2\nerr 3\n")


def test_lines_arrive_while_the_program_runs(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        listener = Listener()
        task = asyncio.create_task(run_command(shell(f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.01; done"), listener))
        assert await listener.heard(1) == ["ready"]
        assert not task.done()
        (tmp_path / "go").touch()
        assert (await task).exit_code == 0

    run(story())


def test_odd_bytes_become_text(run: Run) -> None:
    listener = Listener()
    result = run(run_command(shell(r"printf 'a\0b\377c\r\n\nd\rünï\n'"), listener))
    assert listener.lines() == ["a\ufffdb\ufffdc", "", "d\rünï"]
    assert result.stdout_tail.startswith("a\ufffdb\ufffdc")


def test_a_tail_is_the_last_of_it_in_whole_characters(run: Run) -> None:
    result = run(run_command(python("print('€' * 10_000 + 'end', end='')"), Listener()))
    assert result.stdout_tail.endswith("€end")
    assert "\ufffd" not in result.stdout_tail
    assert MAX_TAIL - 3 < len(result.stdout_tail.encode()) <= MAX_TAIL


def test_a_line_cut_between_bytes_of_a_character_stays_text(run: Run) -> None:
    listener = Listener()
    run(run_command(python("print('€' * 5_000); print('x' * 8192); print('y' * 8193); print('next')"), listener))
    euros, exes, whys, after = listener.lines()
    assert euros == "€" * (MAX_LINE // 3) + LINE_CUT
    assert (exes, whys, after) == ("x" * MAX_LINE, "y" * MAX_LINE + LINE_CUT, "next")


def test_the_workers_environment_is_kept_from_the_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TZ", "Europe/Vienna")
    listener = Listener()
    run(run_command(Command(["env"], {"MODEL": "a=b", "LANG": "de_AT.UTF-8"}), listener))
    env = dict(line.split("=", 1) for line in listener.lines())
    assert env.pop("WINDLASS_RUN")
    assert env.pop("PATH") == os.environ["PATH"]
    assert env.pop("HOME", None) == os.environ.get("HOME")
    assert env == {"MODEL": "a=b", "LANG": "de_AT.UTF-8", "TZ": "Europe/Vienna"}


def test_no_open_file_nor_input_of_the_worker_reaches_the_command(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)  # noqa: FBT003
        listener = Listener()
        run(run_command(python("import os, sys; print(sorted(os.listdir('/proc/self/fd'))[:4], sys.stdin.read())"), listener))
    assert listener.lines() == ["['0', '1', '2', '3'] "]  # 3 is the listing itself


def test_it_runs_where_it_is_told_to(run: Run, tmp_path: Path) -> None:
    listener = Listener()
    run(run_command(Command(["pwd"], {}, cwd=str(tmp_path)), listener))
    assert listener.lines() == [str(tmp_path)]


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (Command(["no-such-program"], {}), r"'no-such-program' was not found.*Install it"),
        (Command(["sh"], {"PATH": "/nowhere"}), "'sh' was not found"),
        (Command(["/etc/passwd"], {}), r"may not be executed.*chmod \+x"),
        (Command(["sh"], {}, cwd="/no/folder"), "folder '/no/folder' does not exist"),
        (Command(["sh", "a\x00b"], {}), "null byte"),
        (Command(["true", "x" * 200_000], {}), "too long"),
        (Command([], {}), "could not be started"),
    ],
)
def test_what_cannot_start_says_what_to_do(run: Run, command: Command, advice: str) -> None:
    with pytest.raises(CommandNotStarted, match=advice):
        run(run_command(command, Listener()))


STUBBORN = """
trap "" TERM
sleep 999 & echo $!
setsid sleep 999 & echo $!
nohup sleep 999 >/dev/null 2>&1 & echo $!
setsid sh -c 'trap "" TERM; (setsid sleep 999 & echo $!) ; wait; sleep 999' &
(exec env -i sleep 999) & echo $!
wait
"""


def test_p01_f20_cancel_leaves_no_survivor_of_a_tree_that_ignores_term(run: Run) -> None:
    async def story() -> None:
        listener = Listener()
        task = asyncio.create_task(run_command(shell(STUBBORN, grace=0.3), listener))
        pids = [int(line) for line in await listener.heard(5)]
        assert all(alive(pid) for pid in pids)
        assert 0.3 <= await canceled(task) < SOON
        assert not any(alive(pid) for pid in pids)

    run(story())


def test_cancel_finds_who_lost_session_parent_and_ignores_term(run: Run) -> None:
    script = "(setsid sh -c 'trap \"\" TERM; echo $$; sleep 99; sleep 99' &); sleep 99"

    async def story() -> None:
        listener = Listener()
        task = asyncio.create_task(run_command(shell(script, grace=0.1), listener))
        (pid,) = [int(line) for line in await listener.heard(1)]
        await canceled(task)
        assert not alive(pid)

    run(story())


@pytest.mark.skipif(not shutil.which("ps"), reason="there is no ps")
def test_without_proc_and_pidfd_it_works_by_ps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tree, "_HAS_PROC", False)
    monkeypatch.delattr(os, "pidfd_open")

    async def story() -> None:
        assert (await run_command(shell("exit 3"), Listener())).exit_code == 3
        listener = Listener()
        script = "trap '' TERM; (sleep 99 & echo $!); setsid sleep 99 & echo $!; wait"
        task = asyncio.create_task(run_command(shell(script, grace=0.1), listener))
        pids = [int(line) for line in await listener.heard(2)]
        await canceled(task)
        assert not any(alive(pid) for pid in pids)

    run(story())


def test_cancel_of_a_well_behaved_command_is_quick_and_hears_its_last_words(run: Run) -> None:
    async def story() -> None:
        listener = Listener()
        script = "trap 'echo bye; exit 1' TERM; echo ready; while :; do sleep 0.01; done"
        task = asyncio.create_task(run_command(shell(script), listener))
        await listener.heard(1)
        assert await canceled(task) < SOON
        assert listener.lines() == ["ready", "bye"]

    run(story())


def test_a_stopped_command_can_be_canceled_gracefully(run: Run) -> None:
    async def story() -> None:
        listener = Listener()
        task = asyncio.create_task(run_command(shell("trap 'echo bye; exit' TERM; echo $$; kill -STOP $$; wait"), listener))
        (pid,) = await listener.heard(1)
        while psutil.Process(int(pid)).status() != psutil.STATUS_STOPPED:
            await asyncio.sleep(0)
        assert await canceled(task) < SOON
        assert listener.lines() == [pid, "bye"]

    run(story())


def test_canceling_again_and_again_does_not_hasten_the_return(run: Run) -> None:
    async def story() -> None:
        listener = Listener()
        task = asyncio.create_task(run_command(shell("trap '' TERM; echo $$; while :; do sleep 0.1; done", grace=0.3), listener))
        (pid,) = await listener.heard(1)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        assert task.cancelled()
        assert not alive(int(pid))

    run(story())


def test_cancel_at_any_moment_of_the_start_leaves_nothing(run: Run) -> None:
    mark = f"windlass-start-{os.getpid()}"

    async def story() -> None:
        for turns in range(8):
            task = asyncio.create_task(run_command(Command(["sh", "-c", "sleep 99 & wait", mark], {}), Listener()))
            for _ in range(turns):
                await asyncio.sleep(0)
            await canceled(task)
        assert not [found for found in marked(mark) if alive(found.pid)]

    run(story())


def test_a_timeout_is_told_as_one(run: Run) -> None:
    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await run_command(shell("trap '' TERM; while :; do sleep 0.05; done", grace=0.1), Listener())

    run(story())


def test_a_loop_that_is_closed_takes_its_commands_along(run: Run) -> None:
    tasks: list[asyncio.Task[CommandResult]] = []

    async def leave() -> int:
        listener = Listener()
        tasks.append(asyncio.create_task(run_command(shell("trap '' TERM; echo $$; sleep 99; sleep 99", 0.1), listener)))
        return int((await listener.heard(1))[0])

    assert not alive(run(leave()))
    assert tasks[0].cancelled()


def test_f20_nothing_is_said_or_written_after_cancel_returned(run: Run, tmp_path: Path) -> None:
    diary = tmp_path / "diary"

    async def story() -> None:
        listener = Listener()
        writing = f"while :; do echo x; echo y >> {diary}; done"
        script = f"trap '' TERM; {writing} & setsid sh -c '{writing}' & wait"
        task = asyncio.create_task(run_command(shell(script, grace=0.05), listener))
        await listener.heard(10)
        await canceled(task)
        said, written = len(listener.said), diary.stat().st_size
        for _ in range(30):
            await asyncio.sleep(0.005)
        assert (len(listener.said), diary.stat().st_size) == (said, written)

    run(story())


BOMB = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready")
if os.fork():
    time.sleep(99)
until = time.monotonic() + 20
while time.monotonic() < until:
    if os.fork():
        time.sleep(0.001)
        os._exit(0)
"""


def test_p02_who_forks_all_the_time_is_ended(run: Run) -> None:
    mark = f"windlass-bomb-{os.getpid()}"

    async def story() -> None:
        listener = Listener()
        command = Command([sys.executable, "-u", "-c", BOMB, mark], {}, 0.1)
        task = asyncio.create_task(run_command(command, listener))
        await listener.heard(1)
        await canceled(task)
        assert not [found for found in marked(mark) if alive(found.pid)]

    run(story())


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
def test_who_holds_the_output_open_does_not_hold_the_run(run: Run, stubborn: str) -> None:
    listener = Listener()
    began = time.monotonic()
    result = run(run_command(shell(f"{stubborn}setsid sleep 999 & sleep 999 & echo $!; echo done; exit 4"), listener))
    assert time.monotonic() - began < SOON
    assert result.exit_code == 4
    assert listener.lines()[1] == "done"
    assert not alive(int(listener.lines()[0]))


def test_who_is_left_without_output_is_ended_without_waiting_for_any(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_command, "DRAIN_SECONDS", GRACE)
    listener = Listener()
    began = time.monotonic()
    run(run_command(shell("setsid sleep 999 >/dev/null 2>&1 & echo $!"), listener))
    assert time.monotonic() - began < SOON
    assert not alive(int(listener.lines()[0]))


def test_closed_output_does_not_end_the_run(run: Run) -> None:
    listener = Listener()
    result = run(run_command(shell("echo first; exec >&- 2>&-; sleep 0.1; exit 5"), listener))
    assert (result.exit_code, listener.lines()) == (5, ["first"])


def test_both_streams_full_at_once_do_not_deadlock(run: Run) -> None:
    script = "import sys\nfor i in range(2000):\n print('o' * 200)\n print('e' * 200, file=sys.stderr)"
    listener = Listener()
    run(run_command(python(script), listener))
    assert len(listener.lines()) == len(listener.lines("stderr")) == 2000


def test_an_error_of_the_listener_ends_the_command(run: Run) -> None:
    pids: list[int] = []

    def refuse(_: str, text: str) -> None:
        pids.append(int(text))
        raise RuntimeError("the listener fell over")

    with pytest.raises(RuntimeError, match="fell over"):
        run(run_command(shell("echo $$; sleep 999"), refuse))
    assert not alive(pids[0])


def test_an_error_of_the_listener_at_the_last_line_is_not_lost(run: Run) -> None:
    def refuse(_: str, text: str) -> None:
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match="last"):
        run(run_command(shell("printf last"), refuse))


class Ticker:
    """Another coroutine on the loop: how long it was kept waiting at most, and the process's memory meanwhile."""

    def __init__(self) -> None:
        self.longest, self.ticks = 0.0, 0
        self.before = self.peak = psutil.Process().memory_info().rss
        self._task = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        process, last = psutil.Process(), time.monotonic()
        while True:
            await asyncio.sleep(0.002)
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last - 0.002), now
            self.ticks += 1
            self.peak = max(self.peak, process.memory_info().rss)

    def stop(self) -> None:
        self._task.cancel()


async def flooded(command: Command) -> tuple[CommandResult, Listener, Ticker]:
    listener, ticker = Listener(), Ticker()
    result = await run_command(command, listener)
    ticker.stop()
    return result, listener, ticker


def test_p03_a_flood_neither_grows_the_worker_nor_starves_others(run: Run) -> None:
    result, listener, ticker = run(flooded(shell("yes | head -c 1000000000; exit 6")))
    assert result.exit_code == 6
    assert result.stdout_tail == "y\n" * (MAX_TAIL // 2)
    assert len(listener.said) == MAX_LINES + 1
    assert listener.lines()[-1] == OUTPUT_TRUNCATED
    assert ticker.peak - ticker.before < 50 * MIB
    assert ticker.longest < 1
    assert ticker.ticks > 20


def test_p04_a_line_of_200_mb_is_cut(run: Run) -> None:
    script = "head -c 200000000 /dev/zero | tr '\\0' x; echo; echo after; echo problem >&2; exit 8"
    result, listener, ticker = run(flooded(shell(script)))
    assert result.exit_code == 8
    assert listener.lines() == ["x" * MAX_LINE + LINE_CUT, "after"]
    assert listener.lines("stderr") == ["problem"]
    assert result.stdout_tail.endswith("x\nafter\n")
    assert ticker.peak - ticker.before < 50 * MIB
    assert ticker.longest < 1
    assert ticker.ticks > 20


def test_lines_of_8_kib_are_limited_by_their_bytes(run: Run) -> None:
    result, listener, _ = run(flooded(shell(f"yes {'z' * 5000} | head -n 5000; echo end")))
    assert sum(map(len, listener.lines())) < 4 * MIB + 100
    assert listener.lines()[-1] == OUTPUT_TRUNCATED
    assert result.stdout_tail.endswith("\nend\n")


def test_two_streams_share_one_marker(run: Run) -> None:
    _, listener, _ = run(flooded(shell("yes o | head -n 50000 & yes e | head -n 50000 >&2; wait")))
    assert [text for _, text in listener.said].count(OUTPUT_TRUNCATED) == 1
    assert len(listener.said) == MAX_LINES + 1


def test_a_silent_reader_throttles_the_program(run: Run) -> None:
    """While the loop is busy with other work, the program waits in its write."""
    count = threading.Semaphore(0)

    async def story() -> None:
        listener = Listener()
        script = "import os\nfor i in range(100): os.write(1, b'x' * 65536); os.write(2, b'%d\\n' % i)"
        task = asyncio.create_task(run_command(python(script), listener))
        await listener.heard(2)
        count.acquire(timeout=0.2)  # blocks the loop
        assert len(listener.lines("stderr")) < 50
        assert (await task).exit_code == 0
        assert listener.lines("stderr")[-1] == "99"

    run(story())


def test_many_commands_at_once(run: Run) -> None:
    async def story() -> None:
        listeners = [Listener() for _ in range(30)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_command(shell(f"echo {i}; exit {i}"), listeners[i])) for i in range(30)]
        assert [task.result().exit_code for task in tasks] == list(range(30))
        assert [listener.lines() for listener in listeners] == [[str(i)] for i in range(30)]

    run(story())


def test_it_works_outside_the_main_thread() -> None:
    codes: list[int] = []
    work = threading.Thread(target=lambda: codes.append(asyncio.run(run_command(shell("exit 9"), Listener())).exit_code))
    work.start()
    work.join(20)
    assert codes == [9]


def test_no_descriptor_is_left_open(run: Run) -> None:
    async def story() -> None:
        await run_command(shell("true"), Listener())
        before = psutil.Process().num_fds()
        for _ in range(5):
            await run_command(shell("echo x"), Listener())
            task = asyncio.create_task(run_command(shell("sleep 99"), Listener()))
            await asyncio.sleep(0)
            await canceled(task)
        await asyncio.sleep(0)
        assert psutil.Process().num_fds() <= before

    run(story())


def test_signals_of_the_worker_stay_its_own(run: Run) -> None:
    """Ctrl-C in the worker's terminal does not reach a command: it is ended by the worker, in order."""

    async def story() -> None:
        listener = Listener()
        task = asyncio.create_task(run_command(shell("echo $$; sleep 99"), listener))
        pid = int((await listener.heard(1))[0])
        assert os.getsid(pid) == os.getpgid(pid) == pid
        await canceled(task)

    run(story())


def test_a_command_made_to_stop_tells_how_it_ended_and_what_it_said(run: Run) -> None:
    async def story() -> None:
        listener, ended = Listener(), []
        script = (
            "import signal, sys, time\n"
            "signal.signal(signal.SIGTERM, lambda *_: (print('last', file=sys.stderr), sys.exit(7)))\n"
            "print('ready')\n"
            "while True: time.sleep(0.01)"
        )
        task = asyncio.create_task(run_command(python(script), listener, ended.append))
        await listener.heard(1)
        await canceled(task)
        assert ended == [CommandResult(7, "ready\n", "last\n")]

    run(story())


def test_a_session_number_counts_only_while_its_root_holds_it(run: Run) -> None:
    """The root is left a zombie until all are ended, so that its pid is nobody else's."""

    async def story() -> None:
        tree = _tree.Tree.start(["sh", "-c", "exit 3"], dict(os.environ))
        await tree.exited()
        assert tree.exit_code() == 3
        assert psutil.Process(tree.process.pid).status() == psutil.STATUS_ZOMBIE
        stranger = _tree.Process(2**22 + 1, 1, tree.process.pid, tree.process.pid, 2**60, ended=False)
        assert tree._is_known(stranger, _tree._table())
        await tree.end(1)
        assert tree.exit_code() == 3
        assert not psutil.pid_exists(tree.process.pid)
        assert not tree._is_known(stranger, _tree._table())
        for pipe in (tree.process.stdout, tree.process.stderr):
            pipe.close()

    run(story())


def test_no_signal_goes_to_everybody_or_to_the_worker_itself() -> None:
    tree = _tree.Tree.start(["true"], dict(os.environ))
    try:
        for group in (0, 1):
            with pytest.raises(AssertionError):
                tree.send([group], signal.SIGCONT)
    finally:
        tree.process.communicate()
