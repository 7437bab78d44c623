"""`windlass bench`: the bare-SQL ceiling of this database and machine, Windlass on it in the same run, and their ratio.

Every figure is taken in a database of the bench's own, which is dropped at the end however it comes. Whatever is
set against something else (the ceiling, an empty history, a free snapshot) is measured in turns with it, round by
round, so that the noise of a busy machine hits both alike. Workers are real processes, started before their jobs
are released. Nothing here is used by the product.

The names load when first used: a worker process that is measured must not carry what measures it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.bench._plan import NAMES, Plan
    from windlass.bench._report import Report, as_json, print_table
    from windlass.bench._run import run

__all__ = ["NAMES", "Plan", "Report", "as_json", "print_table", "run"]

_HOMES = {
    "NAMES": "_plan", "Plan": "_plan", "Report": "_report", "as_json": "_report", "print_table": "_report", "run": "_run",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module 'windlass.bench' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"windlass.bench.{_HOMES[name]}"), name)
