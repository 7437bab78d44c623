"""Words that jobs give, as they can be stored. They may be anything, and never fail the job that gives them."""

import orjson

from windlass.model.storable import MAX_ERROR_CHARS, clean_text

LONGEST_LINE = 16_384
_LONGEST_ODDITY = 1000
_TRUNCATED = '{"truncated": true}'


def as_text(value: object, limit: int = MAX_ERROR_CHARS) -> str:
    """The value as text; an object may refuse even to be printed."""
    if isinstance(value, str):
        return clean_text(value, limit) or ""
    try:
        return clean_text(str(value), limit) or ""
    except Exception:
        return f"{type(value).__name__} (it cannot be printed)"


def as_json(fields: dict[str, object]) -> str:
    """A log line's fields as JSON text."""
    try:
        text = orjson.dumps(fields, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError, RecursionError):
        text = _as_oddity(fields)
    return text.replace("\\u0000", "\\ufffd") if len(text) <= LONGEST_LINE else _TRUNCATED


def _as_oddity(fields: dict[str, object]) -> str:
    """What has no JSON form as Python shows it, if it can: a `__repr__` may raise, or go too deep."""
    try:
        told = ascii(fields)
    except Exception:
        told = "(it cannot be printed)"
    return orjson.dumps({"unreadable": clean_text(told, _LONGEST_ODDITY)}).decode()
