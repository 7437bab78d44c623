"""Durations as people write them: 90, "90s", "5m", "1h30m", timedelta."""

import math
import re
from datetime import timedelta

from windlass.model.errors import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?", re.IGNORECASE)
LONGEST = 10 * 365 * 86400.0


def seconds(duration: float | str | timedelta) -> float:
    """The duration in seconds, never negative, never longer than ten years."""
    match duration:
        case timedelta():
            value = duration.total_seconds()
        case str():
            value = _parse(duration)
        case _:
            value = float(duration)
    if not math.isfinite(value) or not 0 <= value <= LONGEST:
        msg = f"{duration!r} is not a duration between 0 and ten years."
        raise UsageError(msg)
    return value


def _parse(text: str) -> float:
    compact = text.strip()
    parts = _PART.findall(compact)
    if not parts or _PART.sub("", compact).strip():
        msg = f'{text!r} is not a duration: write "90s", "5m", "1h30m", "2d".'
        raise UsageError(msg)
    return sum(float(number) * _UNITS[(unit or "s").lower()] for number, unit in parts)
