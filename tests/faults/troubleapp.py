"""A worker process whose jobs are trouble: `python -m faults.troubleapp URL LEASE GRACE`."""

import os
import sys
import time
from pathlib import Path

import uvloop

from faults.faultapp import note
from windlass import JobContext, Windlass
from windlass.processes.worker import WorkerPlan, leave_at_once, run_worker
from windlass.telemetry import configure_logs

app = Windlass(name="trouble")

# Neither the shell, nor its child, nor one that left its session and its parent takes notice of SIGTERM.
STUBBORN = """
trap '' TERM
mark=$1
(setsid sh -c 'trap "" TERM; sleep 97; sleep 96; : '$mark &)
sh -c 'trap "" TERM; sleep 99; sleep 98; : '$mark &
touch "$2"
wait
"""
TEXTS = {"type": "object", "properties": {"mark": {"type": "string"}, "begun": {"type": "string"}}}
ARGV = ["sh", "-c", STUBBORN, "sh", "{payload.mark}", "{payload.begun}"]

stubborn = app.command("stubborn", argv=ARGV, schema=TEXTS, max_attempts=1, timeout=None)
stubborn_in_time = app.command("stubborn_in_time", argv=ARGV, schema=TEXTS, max_attempts=1, timeout=1)


@app.job(max_attempts=3)
async def rude(ctx: JobContext, path: str, seconds: float) -> None:
    """Pure computation on the event loop."""
    note(path, "rude", ctx.attempt, os.getpid())
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@app.job
async def polite(path: str) -> None:
    note(path, "polite", os.getpid())


def processes_with(mark: str) -> list[int]:
    """The pids of all that run with this word among their arguments, themselves or their parents."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark.encode() in words and state not in "ZX":
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    url, lease, grace = sys.argv[1:]
    app.handlers.source = "faults.troubleapp:app"
    app._url = url
    configure_logs("json")
    plan = WorkerPlan(app, url, concurrency=2, lease_seconds=float(lease), grace=float(grace))
    leave_at_once(uvloop.run(run_worker(plan)))
