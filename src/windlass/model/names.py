"""What keys and queues may be called: the same that the database checks, told where they are written."""

import re

from windlass.model.errors import UsageError

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,119}")
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}")


def check_key(key: str) -> str:
    """The key of a definition, if it can be one; raises UsageError."""
    if not _KEY.fullmatch(key):
        msg = f"{key!r} cannot be a key: use letters, digits and _ . : - (at most 120)."
        raise UsageError(msg)
    return key


def is_queue(name: str) -> bool:
    """Whether a queue can be called so."""
    return _QUEUE.fullmatch(name) is not None


def check_queue(queue: str) -> str:
    """The name of a queue, if it can be one; raises UsageError."""
    if not is_queue(queue):
        msg = f"{queue!r} cannot be a queue: use letters, digits and _ . : - (at most 63)."
        raise UsageError(msg)
    return queue
