"""What PostgreSQL and JSON can hold. Refused at the edge when it comes in, cleaned when it comes out of a job.

A value that cannot be stored must never wedge the path that records failures (F-22, F-23, F-24): so
`encode` is strict and names what is wrong, while `clean_text` and `clean_json` always answer something.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import cast

import orjson

from windlass.model.errors import NotStorable

MAX_PAYLOAD_BYTES = 1 << 20
MAX_RESULT_BYTES = 1 << 20
MAX_ERROR_CHARS = 16_384
MAX_DEPTH = 100
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_UTC_Z
_SURROGATES = re.compile("[\ud800-\udfff]")
_TRUNCATED = "… [truncated]"


def encode(value: object, *, what: str = "payload", limit: int = MAX_PAYLOAD_BYTES) -> str:
    """The value as JSON text that jsonb accepts; raises NotStorable with the reason."""
    try:
        raw = orjson.dumps(value, default=_plain, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError) as problem:
        msg = f"The {what} cannot be stored as JSON: {problem.__cause__ or problem}."
        raise NotStorable(msg) from problem
    if len(raw) > limit:
        msg = f"The {what} has {len(raw):,} bytes; at most {limit:,} can be stored. Store it elsewhere and pass a reference."
        raise NotStorable(msg)
    if b"\\u0000" in raw or b"null" in raw or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        refuse_unstorable(value, what)
    return raw.decode()


def clean_text(text: str | None, limit: int = MAX_ERROR_CHARS) -> str | None:
    """The text without what PostgreSQL refuses, and no longer than the limit."""
    if text is None:
        return None
    if len(text) > limit:
        text = text[: limit - len(_TRUNCATED)] + _TRUNCATED
    if text.isascii():
        return text.replace("\x00", "\ufffd")
    return _SURROGATES.sub("\ufffd", text).replace("\x00", "\ufffd")


def _plain(value: object) -> object:
    """Pydantic models and sets, which orjson does not know."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, set | frozenset):
        return list(cast("set[object]", value))
    if isinstance(value, bytes):
        msg = "bytes have no JSON form; encode them first (base64), or pass a reference"
        raise TypeError(msg)
    msg = f"{type(value).__name__} has no JSON form"
    raise TypeError(msg)


def refuse_unstorable(value: object, what: str, path: str = "$", depth: int = 0) -> None:
    """Walk a value for what JSON encoders let pass: NUL in strings, NaN and infinities (as null), depth."""
    if depth > MAX_DEPTH:
        msg = f"The {what} is nested deeper than {MAX_DEPTH} levels at {path[:200]}."
        raise NotStorable(msg)
    if isinstance(value, str) and "\x00" in value:
        msg = f"The {what} has a NUL character at {path}; PostgreSQL cannot store it."
        raise NotStorable(msg)
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"The {what} has {value} at {path}; JSON has no such number."
        raise NotStorable(msg)
    for step, child in _children(value):
        refuse_unstorable(child, what, f"{path}{step}", depth + 1)


def _children(value: object) -> Sequence[tuple[str, object]]:
    if isinstance(value, Mapping):
        items = list(cast("Mapping[object, object]", value).items())
        return [(f".{key}", child) for key, child in items] + [("(key)", key) for key, _ in items]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"[{index}]", child) for index, child in enumerate(cast("Sequence[object]", value))]
    dump = getattr(value, "model_dump", None)
    return [("", dump())] if callable(dump) else []


def check_json(text: str, *, what: str = "payload", limit: int = MAX_PAYLOAD_BYTES) -> str:
    """JSON text made elsewhere, if jsonb accepts it; raises NotStorable with the reason."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > limit:
        msg = f"The {what} has {size:,} bytes; at most {limit:,} can be stored. Store it elsewhere and pass a reference."
        raise NotStorable(msg)
    if _SURROGATES.search(text):
        msg = f"The {what} has a lone surrogate, which is no character; PostgreSQL cannot store it."
        raise NotStorable(msg)
    if text.count("{") + text.count("[") > MAX_DEPTH or "\\u" in text or "N" in text or "Infinity" in text:
        return encode(_loads(text, what), what=what, limit=limit)
    return text


def _loads(text: str, what: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        msg = f"The {what} cannot be stored as JSON: {problem}."
        raise NotStorable(msg) from problem
