"""An app whose jobs note what they do in a file outside the database, so that nothing can be forgotten."""

import os
import signal
import time
from pathlib import Path

from windlass import JobContext, Windlass, backoff

app = Windlass(name="faults")


def note(path: str, *words: object) -> None:
    """One line, on disk before this returns."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, (" ".join(map(str, words)) + "\n").encode())
        os.fsync(fd)
    finally:
        os.close(fd)


@app.job
async def quick(ctx: JobContext, path: str) -> int:
    note(path, ctx.job_id, ctx.attempt, os.getpid())
    return ctx.attempt


@app.job(max_attempts=5, backoff=backoff.fixed(0))
def hold(ctx: JobContext, path: str, until: str) -> str:
    """Runs until a file appears."""
    note(path, "begin", ctx.job_id, ctx.attempt, os.getpid())
    while not Path(until).exists() and not ctx.canceled:
        time.sleep(0.01)
    note(path, "end", ctx.job_id, ctx.attempt, os.getpid())
    return f"attempt {ctx.attempt}"


@app.job(max_attempts=3)
async def poison(path: str) -> None:
    note(path, os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)
