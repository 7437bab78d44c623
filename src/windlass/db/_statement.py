"""SQL lives in files: one statement each, beside the function that runs it, with the same stem."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement and the name it is known by in plans and tests."""

    name: str
    text: str


def statement(module_file: str, stem: str) -> Statement:
    """Load `sql/<stem>.sql` from beside the module."""
    room = Path(module_file).parent
    return Statement(f"{room.name}.{stem}", (room / "sql" / f"{stem}.sql").read_text(encoding="utf-8").strip())
