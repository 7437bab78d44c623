"""How things are shown: a table for a person, plain lines for a program or a file, one JSON document on request.

What jobs and people wrote is data: it is shown as it is, but never as markup, nor as orders to the terminal.
"""

import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

T = TypeVar("T")
_ORDERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_STYLES = {
    "succeeded": "green", "running": "cyan", "queued": "blue", "scheduled": "blue", "blocked": "yellow",
    "waiting": "yellow", "failed": "red", "dead_letter": "red", "timeout": "red", "lost": "red", "canceled": "magenta",
    "warning": "yellow", "error": "red", "debug": "dim", "active": "green", "applied": "green", "pending": "yellow",
    "alive": "green", "silent": "red", "✓": "green", "!": "yellow", "✗": "red",
}  # fmt: skip
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def say(text: str, *, error: bool = False) -> None:
    """A line, now: also through a pipe."""
    stream = sys.stderr if error else sys.stdout
    print(clean(text), file=stream, flush=True)


def say_words(*words: str) -> None:
    """A line of words, in which those that have a colour get it on a terminal."""
    if not sys.stdout.isatty():
        say(" ".join(words))
        return
    Console(highlight=False, soft_wrap=True).print(Text(" ").join(_coloured(word) for word in words))


def clean(text: str) -> str:
    """The text with what would move the cursor, colour the screen or turn the writing shown as an escape."""
    return _ORDERS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def listing(
    items: Sequence[T],
    columns: Mapping[str, Callable[[T], str]],
    *,
    none: str,
    as_json: bool,
    more: Mapping[str, object] | None = None,
) -> None:
    """Several things: a row each, or `{"items": […]}`."""
    if as_json:
        document({"items": items, **(more or {})})
    elif items:
        table(list(columns), [[cell(item) for cell in columns.values()] for item in items])
    else:
        say(none, error=True)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under titles; only the first line of a cell is shown."""
    cells = [[clean(cell.partition("\n")[0]) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_table(titles, cells)
        return
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for row in (titles, *cells):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def facts(told: Mapping[str, str | None]) -> None:
    """What is known of one thing; what is not known is left out."""
    known = {name: text for name, text in told.items() if text}
    width = max(map(len, known))
    for name, text in known.items():
        first, *rest = text.splitlines() or [""]
        say_words(name.ljust(width), "", first)
        for line in rest:
            say(" " * (width + 2) + line)


def document(value: object) -> None:
    """One JSON document."""
    # The driver's ids are of a kind of their own: as text they are what they are.
    say_raw(orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z | orjson.OPT_INDENT_2).decode())


def say_raw(text: str) -> None:
    """Text for another program, as it is."""
    print(text, flush=True)


def inline(value: object) -> str | None:
    """A value on one line."""
    return None if value is None else orjson.dumps(value, option=orjson.OPT_UTC_Z).decode()


def ago(moment: datetime | None) -> str:
    """How long ago, or in how long."""
    if moment is None:
        return ""
    away = (datetime.now(UTC) - moment).total_seconds()
    return f"in {lasting(-away)}" if away < -1 else f"{lasting(away)} ago"


def lasting(seconds: float | timedelta | None) -> str:
    """A stretch of time, as people say it."""
    if seconds is None:
        return ""
    length = max(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds, 0.0)
    for size, unit in _UNITS:
        if length >= 2 * size:
            return f"{length / size:.0f} {unit}"
    if length < 0.9995:  # noqa: PLR2004
        return f"{length * 1000:.0f} ms"
    return f"{length:.1f} s" if length < 10 else f"{length:.0f} s"  # noqa: PLR2004


@contextmanager
def busy(doing: str) -> Generator[None]:
    """Show on a terminal that something takes its time."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(doing + " …"):
        yield


def _print_table(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        shown.add_column(title, overflow="fold", no_wrap=title in {"id", "status"})
    for row in cells:
        shown.add_row(*map(_coloured, row))
    Console().print(shown)


def _coloured(word: str) -> Text:
    cleaned = clean(word)
    return Text(cleaned, style=_STYLES.get(cleaned, ""))


def record(item: Any, *without: str, **more: object) -> dict[str, object]:
    """A dataclass as a dictionary, not looking into its values."""
    return {field.name: getattr(item, field.name) for field in fields(item) if field.name not in without} | more
