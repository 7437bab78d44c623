"""The first process of a container inherits whoever loses its parent there, and is to take note of their ends: else each
stays in the process table for ever.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

_EVERY = 10.0
_STATE, _PARENT, _SESSION = 0, 1, 3  # in stat, counted from after the program's name, which may hold anything

Spared = Callable[[int, int], bool]


def inherits() -> bool:
    """Whether orphans become this process's children."""
    return os.getpid() == 1


def started_here(pid: int, session: int) -> bool:
    """Whether this process may have started it, and wait for it some time: it is in our session, or leads its own."""
    return session in {pid, os.getsid(0)}


class Orphans:
    """Takes note of the ends of children that are not `spared`, which answers for a pid and its session. One that has just
    been started may not be known yet: so only of those that had ended at the look before, too.
    """

    def __init__(self, spared: Spared = started_here) -> None:
        self._spared = spared
        self._ended: set[int] = set()

    async def reap(self) -> float:
        """One look; answers how long to rest."""
        found = {pid for pid, session in _zombies() if not self._spared(pid, session)}
        for pid in found & self._ended:
            _take_note(pid)
        self._ended = found
        return _EVERY


def _take_note(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _zombies() -> Iterator[tuple[int, int]]:
    """Children of this process that have ended, each with its session."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (folder / "stat").read_text().rpartition(")")[2].split()
            if told[_STATE] == "Z" and int(told[_PARENT]) == os.getpid():
                yield int(folder.name), int(told[_SESSION])
