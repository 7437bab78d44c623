"""Due: what waits for its time, or for other jobs, goes on when that has come."""

import time
from datetime import UTC, datetime, timedelta

from windlass.db import Database, statement

_PROMOTE = statement(__file__, "promote")
_NEXT_DUE = statement(__file__, "next_due")
_RECHECK = statement(__file__, "recheck_blocked")
_BATCH = 1000
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_SLACK = timedelta(seconds=5)
_FROM_THE_START_EVERY = 10.0


class Due:
    """Moves due jobs. Remembers up to when all was moved, and looks from the start again now and then."""

    def __init__(self) -> None:
        self._mark = _BEGINNING
        self._start_over_at = 0.0

    async def promote(self, database: Database, longest: float) -> float:
        """Move what is due; answers how long to rest until the next is, at most `longest` seconds."""
        if time.monotonic() >= self._start_over_at:
            self._mark, self._start_over_at = _BEGINNING, time.monotonic() + _FROM_THE_START_EVERY
        moved = await database.row(_PROMOTE, self._mark, _BATCH)
        assert moved is not None
        if moved["moved"] == _BATCH:
            self._mark = moved["last_due"]
            return 0.0
        self._mark = max(self._mark, moved["now"] - _SLACK)
        scheduled = await database.value(_NEXT_DUE, "scheduled", self._mark)
        return longest if scheduled is None else min(max(scheduled, 0.001), longest)


async def recheck_blocked(database: Database, longest: float) -> float:
    """Look again at blocked jobs whose parents ended out of their sight; answers how long to rest."""
    if await database.value(_RECHECK, _BATCH) == _BATCH:
        return 0.0
    blocked = await database.value(_NEXT_DUE, "blocked", _BEGINNING)
    return longest if blocked is None else min(max(blocked, 0.01), longest)
