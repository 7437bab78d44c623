"""How a worker reaches the queue: `base.Transport`, and its real implementations."""

from windlass.transports.base import Pulse, Transport

__all__ = ["Pulse", "Transport"]
