"""What may run, as the code says it."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

import orjson

from windlass.model.backoff import Backoff

Kind = Literal["handler", "command", "host"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition's code side (API §4.1); `hash` tells whether the code changed."""

    key: str
    kind: Kind = "handler"
    description: str = ""
    arg_schema: dict[str, object] = field(default_factory=dict[str, object])
    argv: tuple[str, ...] | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])
    queue: str = "default"
    priority: int = 100
    max_attempts: int = 3
    timeout_seconds: float | None = None
    backoff: Backoff = field(default_factory=Backoff)
    dedupe_window_seconds: int = 0
    max_running: int | None = None
    concurrency: tuple[dict[str, object], ...] = ()
    rate: dict[str, object] | None = None
    schedule: dict[str, object] | None = None
    retention_days: int | None = None
    retention_count: int | None = None
    tags: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """A fingerprint of all that the code says."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True)
class EffectiveDefinition:
    """A definition as stored: what the code says, overlaid by what people changed."""

    id: str
    key: str
    kind: Kind
    queue: str
    priority: int
    max_attempts: int
    timeout_seconds: float | None
    backoff: Backoff
    is_active: bool
    deleted_from_code: bool
    description: str = ""
    arg_schema: dict[str, object] = field(default_factory=dict[str, object])
    argv: tuple[str, ...] | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])
    tags: tuple[str, ...] = ()
