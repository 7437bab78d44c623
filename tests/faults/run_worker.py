"""A worker process for the fault tests: run_worker.py URL LEASE NAME CONCURRENCY [LISTEN_URL]"""

import sys

import uvloop

from faults.faultapp import app
from windlass.processes.worker import WorkerPlan, leave_at_once, run_worker
from windlass.telemetry import configure_logs

url, lease, name, concurrency, listen = [*sys.argv[1:], ""][:5]
app.handlers.source = "faults.faultapp:app"
app._url = url
configure_logs("json")
plan = WorkerPlan(app, url, listen or None, name=name or None, concurrency=int(concurrency), lease_seconds=float(lease), grace=5)
leave_at_once(uvloop.run(run_worker(plan)))
