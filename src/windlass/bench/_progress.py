"""What a person sees while it runs: a bar on a terminal, plain lines elsewhere; on stderr, so that stdout is the report."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Telling:
    """Says which line is measured, of how many."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}"),
            console=self._console, transient=True, disable=not self._console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total)
        self._name = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def begin(self, name: str) -> None:
        """The next line begins."""
        self._name = name
        self._bar.update(self._task, description=name)
        if not self._console.is_terminal:
            self._console.print(name, highlight=False)

    def note(self, text: str) -> None:
        """What it is at, for who watches."""
        self._bar.update(self._task, description=f"{self._name} [dim]{text}[/]")

    def done(self) -> None:
        """The line is measured."""
        self._bar.advance(self._task)
