"""What a worker can run: definitions with the code that does them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from windlass.model import Definition

Executor = Literal["async", "thread", "process", "command"]


@dataclass(frozen=True, slots=True)
class Handler:
    """One definition's code. `decode` turns payload JSON into keyword arguments or raises BadPayload."""

    definition: Definition
    executor: Executor
    decode: Callable[[str], dict[str, object]]
    function: Callable[..., Any] | None = None
    wants_context: bool = False


class Handlers(Mapping[str, Handler]):
    """Handlers by key. `source` is the `module:attribute` a child process imports to get the same ones."""

    def __init__(self, source: str | None = None) -> None:
        self.source = source
        self._by_key: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        """Take in one more; a key stands for one handler only."""
        self._by_key[handler.definition.key] = handler

    def __getitem__(self, key: str) -> Handler:
        return self._by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)
