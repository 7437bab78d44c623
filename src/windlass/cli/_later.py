"""What a command needs only once it runs."""

from importlib import import_module
from typing import Any


class Later:
    """A module that is imported when something of it is first wanted."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
