"""The worker process that is measured: `python -m windlass.bench._worker_process URL CONCURRENCY`.

It carries what a worker needs and nothing else, and ends with the process that started it, whatever ended that.
"""

import logging
import os
import signal
import sys
import threading

import uvloop

from windlass.bench._jobs import jobs_on
from windlass.processes.worker import WorkerPlan, run_worker
from windlass.telemetry import configure_logs

_GRACE = 1.0


def _end_with_parent() -> None:
    """The parent holds the other end of stdin, and never writes to it."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main(url: str, concurrency: str) -> int:
    """Work until told to stop."""
    configure_logs("console", logging.WARNING)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    plan = WorkerPlan(jobs_on(url).app, url, concurrency=int(concurrency), grace=_GRACE)
    return uvloop.run(run_worker(plan))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
