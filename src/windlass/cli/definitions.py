"""`windlass definitions`: what may run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from windlass.cli._later import Later
from windlass.cli._words import AsJson, noun
from windlass.model import EffectiveDefinition

if TYPE_CHECKING:
    from windlass import engine
    from windlass.cli import _connect as connect
    from windlass.cli import _shown as shown
else:
    engine, connect, shown = Later("windlass.engine"), Later("windlass.cli._connect"), Later("windlass.cli._shown")

app = noun("What may run.")


@app.callback()
def definitions() -> None:
    """What may run."""


@app.command("ls")
def ls(*, as_json: AsJson = False) -> None:
    """All definitions, as they count now: what the code says, overlaid by what people changed."""
    found = list(connect.on_database(engine.registry.effective).values())
    none = "There are no definitions yet. Start a worker with the application that has them: `windlass worker -A module:app`."
    shown.listing(found, _COLUMNS, none=none, as_json=as_json)


def _status(one: EffectiveDefinition) -> str:
    if one.deleted_from_code:
        return "gone"
    return "active" if one.is_active else "off"


def _fields(one: EffectiveDefinition) -> str:
    """The payload's fields, those that may be left out with a question mark."""
    properties, required = one.arg_schema.get("properties"), one.arg_schema.get("required")
    names = cast("dict[str, object]", properties) if isinstance(properties, dict) else {}
    needed = cast("list[object]", required) if isinstance(required, list) else []
    return " ".join(name if name in needed else f"{name}?" for name in names)


_COLUMNS: dict[str, Callable[[EffectiveDefinition], str]] = {
    "key": lambda one: one.key,
    "status": _status,
    "kind": lambda one: one.kind,
    "queue": lambda one: one.queue,
    "payload": _fields,
    "attempts": lambda one: str(one.max_attempts),
    "timeout": lambda one: shown.lasting(one.timeout_seconds) or "none",
    "description": lambda one: one.description,
}
