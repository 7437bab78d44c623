"""The argv of an allow-listed command: a template, and one job's values put into it. Pure, and never a shell.

A template is a list of arguments as the program will get them. Into an argument go placeholders, in single braces:
`{tenant_id}`, `{tenant_slug}`, `{job_id}`, `{attempt}` and `{payload.<path>}`, where a path names fields, and items of
a list by number (`{payload.folders.0.name}`). Each argument of the template becomes at most one argument of the
program, whatever the value holds. Other text in braces stands for itself (`{}`, `{"a": 1}`, `{print $1}`).

A payload field that is absent or null drops its argument, together with the option before it if that is an argument
of its own: `["--model", "{payload.model}"]` and `["--model={payload.model}"]` both vanish without a model.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import cast

from windlass.model.errors import UsageError

FACTS = ("tenant_id", "tenant_slug", "job_id", "attempt")
_HOLE = re.compile(r"\{(" + "|".join(FACTS) + r"|payload(?:\.[\w-]+)+)\}")
_BRACED = re.compile(r"\{([^{}]*)\}")
# What somebody meant as a placeholder: a single word, or anything that begins with the name of one.
_MEANT = re.compile(r"\s*(?:[^\W\d][\w.\-\[\]]*\s*$|(?:payload|" + "|".join(FACTS) + r")\b)")
_DOUBLED = re.compile(r"\{\{\s*[\w.-]+\s*\}\}")
_KNOWN = ", ".join(f"{{{name}}}" for name in FACTS) + " and {payload.<path>}"
_SURROGATE = re.compile("[\ud800-\udfff]")
_END_OF_OPTIONS = "--"


class BadArgument(UsageError):
    """A value that must not become an argument of a command; `path` names where it came from."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be passed to the command: {why}.")


class _Absent(Exception):
    """The payload does not have the field."""


def check_template(argv: Sequence[str]) -> None:
    """Refuse a template that could never run, or that would not do what it seems to say."""
    if isinstance(argv, str) or not argv or not argv[0].strip():
        msg = 'A command needs an argv: a list whose first element is the program to run, such as ["backup", "--all"].'
        raise UsageError(msg)
    for element in argv:
        _check_element(element)
    if _HOLE.search(argv[0]):
        msg = f"The program {argv[0]!r} has a placeholder. Write the program itself: only its arguments may vary."
        raise UsageError(msg)


def render(argv: Sequence[str], facts: Mapping[str, object], payload: Mapping[str, object]) -> list[str]:
    """The argv to execute for one job; raises BadArgument for a value that must not be passed."""
    rendered: list[str] = []
    options_may_come = True
    option_before = False
    for element in argv:
        options_may_come = options_may_come and element != _END_OF_OPTIONS
        argument = _fill(element, facts, payload)
        if argument is not None:
            _refuse_option(element, argument, options_may_come=options_may_come)
            rendered.append(argument)
        elif option_before and not element.startswith("-"):
            rendered.pop()
        option_before = argument is not None and options_may_come and _is_option(element)
    return rendered


def _check_element(element: str) -> None:
    if why := _unfit(element):
        msg = f"The argument {element!r} cannot be passed to a program: {why}."
        raise UsageError(msg)
    if doubled := _DOUBLED.search(element):
        msg = f"{doubled[0]} in {element!r} has doubled braces. Placeholders of a command stand in single braces."
        raise UsageError(msg)
    for braced in _BRACED.finditer(element):
        if _MEANT.match(braced[1]) and not _HOLE.fullmatch(braced[0]):
            msg = f"{braced[0]} in {element!r} is not a placeholder. There are {_KNOWN}."
            raise UsageError(msg)


def _fill(element: str, facts: Mapping[str, object], payload: Mapping[str, object]) -> str | None:
    """The element with its values, put in by one pass so that a value is never read as a placeholder."""

    def value(hole: re.Match[str]) -> str:
        fields = hole[1].split(".")[1:]
        if not fields:
            return _text(hole[1], str(facts[hole[1]]))
        found = _field(payload, fields)
        if found is None:
            raise _Absent
        return _text(hole[1], found)

    try:
        return _HOLE.sub(value, element)
    except _Absent:
        return None


def _field(payload: object, fields: Sequence[str]) -> object:
    """What the path leads to, or None."""
    for name in fields:
        if isinstance(payload, Mapping):
            payload = cast("Mapping[str, object]", payload).get(name)
        elif isinstance(payload, list) and name.isdecimal():
            items = cast("list[object]", payload)
            payload = items[int(name)] if int(name) < len(items) else None
        else:
            return None
    return payload


def _text(path: str, value: object) -> str:
    """The value as the program sees it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise BadArgument(path, f"{value} is not a number that can be written down")
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else _refuse_kind(path, value)
    if why := _unfit(text):
        raise BadArgument(path, why)
    return text


def _unfit(text: str) -> str | None:
    """Why the operating system would not take this text as an argument, if it would not."""
    if "\x00" in text:
        return "it has a NUL character"
    return "it has half of a surrogate pair, which is not text" if _SURROGATE.search(text) else None


def _refuse_kind(path: str, value: object) -> str:
    kind = "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else type(value).__name__
    raise BadArgument(path, f"it is {kind}; one argument holds a string, a number or a boolean")


def _refuse_option(element: str, argument: str, *, options_may_come: bool) -> None:
    """A value must not turn its argument into an option that the template did not write."""
    hole = _HOLE.search(element)
    if not options_may_come or hole is None or element[: hole.start()].strip("-"):
        return
    value = argument[hole.start() :]
    if value.startswith("-"):
        why = f"the value {value[:80]!r} begins with '-' and could be read as an option"
        raise BadArgument(hole[1], f"{why}; write the template as --option={{{hole[1]}}}, or put '--' before it")


def _is_option(element: str) -> bool:
    """Whether the element is an option whose value, if it has one, is the next element."""
    return element.startswith("-") and element != "-" and "=" not in element
