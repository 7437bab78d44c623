"""Where and when a process was born. A host's name and a pid do not tell processes apart: every container has a pid 1,
and containers that follow each other, or hosts, may have one name.
"""

import os
from pathlib import Path

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19  # in stat, counted from after the program's name, which may hold anything
_ENDED = {"Z", "X"}


def birth_of(pid: int) -> str | None:
    """Its kernel's boot, its pid namespace and its start, as one word; None where there is no /proc."""
    try:
        return f"{_here()}:{_started(pid)}"
    except OSError:
        return None


def is_dead(birth: str | None, pid: int) -> bool | None:
    """Whether that process has ended; None if that cannot be told from here."""
    try:
        here = _here()
    except OSError:
        return None
    where, _, started = (birth or "").rpartition(":")
    if where != here:
        return None
    try:
        return _started(pid) != started
    except OSError:
        return None if _is_hidden(pid) else True


def _here() -> str:
    boot, namespace = _PROC / "sys/kernel/random/boot_id", _PROC / "self/ns/pid"
    return f"{boot.read_text().strip()}:{namespace.stat().st_ino}"


def _started(pid: int) -> str:
    """In the kernel's ticks; nothing for one that has ended and waits for its parent to notice."""
    told = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return "" if told[_STATE] in _ENDED else told[_STARTED]


def _is_hidden(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
