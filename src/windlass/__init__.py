"""Windlass: a jobs control plane for multi-tenant products, on PostgreSQL.

The names load when first used, so that `windlass --help`, and an agent on a host, never load what they do not
need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.client import Windlass, cron, every
    from windlass.model import Cancel, Done, Fail, Retry, Snooze, backoff, errors
    from windlass.worker import JobContext

__all__ = ["Cancel", "Done", "Fail", "JobContext", "Retry", "Snooze", "Windlass", "backoff", "cron", "errors", "every"]
__version__ = "0.1.0"

_HOMES = {
    "Windlass": "client", "cron": "client", "every": "client", "JobContext": "worker", "Cancel": "model",
    "Done": "model", "Fail": "model", "Retry": "model", "Snooze": "model", "backoff": "model", "errors": "model",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module 'windlass' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"windlass.{_HOMES[name]}"), name)
