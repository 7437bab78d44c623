"""The real command line, as a person has it: in a process of its own, with what it said and how it ended."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

HERE = Path(__file__).parent
PATIENCE = 30.0


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def id(self) -> str:
        """The job id on its first line."""
        return self.out.split()[0]


def run(*args: str, stdin: str = "", **environ: str | None) -> Ran:
    """Run `windlass …` to its end, with these environment variables (None: without)."""
    done = subprocess.run(
        _command(args), input=stdin, capture_output=True, text=True, cwd=HERE, env=_env(environ), timeout=PATIENCE
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class Running:
    """`windlass …` that goes on: its lines of both streams are kept as they come."""

    def __init__(self, *args: str, **environ: str | None) -> None:
        self.lines: list[str] = []
        self._said = threading.Condition()
        self.process = subprocess.Popen(
            _command(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=HERE, env=_env(environ),
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def wait_for(self, text: str, times: int = 1) -> str:
        """The line with this text, the n-th of its kind."""
        deadline = time.monotonic() + PATIENCE
        with self._said:
            while len(found := [line for line in self.lines if text in line]) < times:
                assert self._said.wait(deadline - time.monotonic()), f"{text!r} was not said: {self.text}"
        return found[times - 1]

    def tell(self, what: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(what)

    def told_again_and_again(self, what: signal.Signals) -> int:
        """Send it signals, at intervals that let it notice each, until it ends; how it was."""
        for _ in range(100):
            self.tell(what)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(0.2)
        raise AssertionError(f"it goes on: {self.text}")

    def ended(self) -> int:
        """Wait for its end; how it was."""
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status

    @property
    def text(self) -> str:
        """All it said so far."""
        return "".join(self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line)
                self._said.notify_all()


def worker(*args: str) -> Running:
    """A worker of the application in shop.py, once it works."""
    started = Running("worker", "-A", "shop:app", *args)
    started.wait_for("worker started")
    return started


def _command(args: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "windlass", *args]


def _env(changes: dict[str, str | None]) -> dict[str, str]:
    merged = {**os.environ, "PYTHONUNBUFFERED": "1", **changes}
    return {name: value for name, value in merged.items() if value is not None}
