"""What commands have in common: how a noun is made, and values as people type them."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar, cast
from uuid import UUID

import typer
from typer.core import TyperGroup

from windlass.model.durations import seconds
from windlass.model.errors import UsageError
from windlass.model.names import check_queue
from windlass.model.storable import encode

T = TypeVar("T")


class Group(TyperGroup):
    """Commands of commands. Their `--help` is False and not None until it is asked for: to make sense of a None Typer
    loads pydantic, which alone takes longer than help may.
    """

    def get_help_option(self, ctx: Any) -> Any:
        """As it was, with a default."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


def noun(told: str) -> typer.Typer:
    """A command with commands of its own."""
    return typer.Typer(cls=Group, help=told, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def _refusing(read: Callable[[str], T]) -> Callable[[str], T]:
    """A value that cannot be read is wrong usage."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except (UsageError, ValueError, OverflowError, RecursionError) as problem:
            raise typer.BadParameter(str(problem)) from problem

    return parse


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as problem:
        msg = f"{text!r} is not a time: write it like 2030-12-31T18:00:00+01:00."
        raise ValueError(msg) from problem
    if at.tzinfo is None:
        msg = f"{text!r} has no offset, and is another moment in each time zone: add one, such as Z or +01:00."
        raise ValueError(msg)
    return at.astimezone(UTC)


def _payload(text: str) -> str:
    try:
        value = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as problem:
        msg = f"it is not JSON: {problem}."
        raise ValueError(msg) from problem
    if not isinstance(value, dict):
        msg = 'it must be a JSON object, such as {"user_id": 1}.'
        raise ValueError(msg)  # noqa: TRY004 - of a user's text, not of a type in the program
    return encode(cast("dict[str, object]", value))


def _name(text: str) -> str:
    """What PostgreSQL can hold and a person can mean."""
    if not 1 <= len(text) <= 500 or not text.isprintable():  # noqa: PLR2004
        msg = f"{text[:60]!r} must have 1 to 500 printable characters."
        raise ValueError(msg)
    return text


def _queues(text: str) -> str:
    names = [check_queue(queue.strip()) for queue in text.split(",") if queue.strip()]
    if not names:
        msg = f"{text!r} names no queue: write them like default,mail."
        raise ValueError(msg)
    return ",".join(names)


def _app_path(text: str) -> str:
    module, _, attribute = text.partition(":")
    if not module or not attribute:
        msg = f"{text!r} does not name an app: write module:attribute, such as myproject.jobs:app."
        raise ValueError(msg)
    return text


duration, moment, payload, name = _refusing(seconds), _refusing(_moment), _refusing(_payload), _refusing(_name)
queues, app_path = _refusing(_queues), _refusing(_app_path)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", parser=name, metavar="TENANT", help="Slug or id. Without it WINDLASS_TENANT, else default."),
]
JobId = Annotated[UUID, typer.Argument(metavar="ID", help="The job's id.")]
JobIds = Annotated[list[UUID], typer.Argument(metavar="ID...", help="The jobs' ids.")]
