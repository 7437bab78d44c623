"""The ways to run a job: on the loop, in a thread, in a process, as a command."""

from windlass.worker.executors._run import Executors

__all__ = ["Executors"]
