"""What people may change of a definition, checked before it is stored: it is read by every worker."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, cast

from windlass.model.backoff import Backoff
from windlass.model.errors import UsageError
from windlass.model.names import is_queue

_INT = 2**31 - 1
_BACKOFF = tuple(field.name for field in fields(Backoff))


def check_overrides(given: Mapping[str, object]) -> dict[str, object]:
    """The overrides as they are stored; a None takes one back. Raises UsageError, which says what is wrong."""
    checked = dict(given)
    for name, value in given.items():
        if name not in _CHECKS:
            msg = f"{name!r} cannot be overridden: only {', '.join(_CHECKS)} can."
            raise UsageError(msg)
        fits, wanted = _CHECKS[name]
        if value is not None and not fits(value):
            msg = f"{name!r} cannot be {value!r}: it must be {wanted}."
            raise UsageError(msg)
        if name == "backoff" and value is not None:
            checked[name] = Backoff(**cast("dict[str, Any]", value)).as_dict()
    return checked


def _whole(least: int, most: int = _INT) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _number(value: object, most: float = math.inf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= most


def _is_backoff(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    told = dict(cast("Mapping[object, object]", value))
    kind, jitter = told.pop("kind", "fixed"), told.pop("jitter", 0)
    known = all(name in _BACKOFF for name in told)
    return known and kind in ("exponential", "fixed") and _number(jitter, 1) and all(map(_number, told.values()))


_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "queue": (
        lambda value: isinstance(value, str) and is_queue(value),
        "a name of letters, digits and _ . : - (at most 63)",
    ),
    "priority": (_whole(-_INT), "a whole number"),
    "max_attempts": (_whole(1, 32767), "a whole number from 1 to 32767"),
    "timeout_seconds": (lambda value: _number(value) and value != 0, "a number of seconds above 0"),
    "backoff": (_is_backoff, f"an object with some of {', '.join(_BACKOFF)}"),
    "dedupe_window_seconds": (_whole(0), "a whole number of seconds"),
    "retention_days": (_whole(0), "a whole number"),
    "retention_count": (_whole(0), "a whole number"),
    "is_active": (lambda value: isinstance(value, bool), "true or false"),
}
