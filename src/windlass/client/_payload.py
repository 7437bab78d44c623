"""A payload's schema, taken from the function's signature; values in and out of it.

Validation happens at enqueue, where the mistake is, and again at claim, where the payload may have come from
SQL: there it also turns JSON back into the types the function wants.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, NotRequired, cast, get_type_hints

import jsonschema_rs
import orjson
from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from windlass.client._result import Result
from windlass.model.errors import BadPayload, UsageError
from windlass.model.storable import check_json, encode, refuse_unstorable
from windlass.worker import JobContext

_VARIADIC = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY}


class SignaturePayload:
    """The payload of a Python function."""

    def __init__(self, key: str, function: Callable[..., object]) -> None:
        self.key = key
        hints = _hints(function, key)
        self.result = Result(key, hints.get("return", Any))
        parameters = list(inspect.signature(function).parameters.values())
        self.wants_context = bool(parameters) and hints.get(parameters[0].name) is JobContext
        self._parameters = parameters[1:] if self.wants_context else parameters
        self._positional = [p.name for p in self._parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        _refuse_variadic(key, self._parameters)
        self._adapter = _adapter(key, self._parameters, hints)
        self._validator = self._adapter.validator

    @property
    def schema(self) -> dict[str, object]:
        """As JSON Schema, with the defaults the function has."""
        schema = self._adapter.json_schema()
        schema.pop("title", None)
        for parameter in self._parameters:
            told = schema.get("properties", {}).get(parameter.name)
            if told is not None and isinstance(parameter.default, str | int | float | bool | None):
                told["default"] = parameter.default
        return schema

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        """A call's arguments as checked JSON text; raises BadPayload naming each path."""
        named = {**kwargs, **self._by_position(args, kwargs)} if args else kwargs
        try:
            valid = self._validator.validate_python(named)
        except ValidationError as problem:
            raise BadPayload(self.key, _paths(problem)) from problem
        text = self._dump(valid)
        if "null" in text:
            refuse_unstorable(valid, "payload")  # NaN turns into null without a word
        return check_json(text)

    def encode_payload(self, payload: Mapping[str, object]) -> str:
        """A payload given as a mapping."""
        return self.encode((), payload)

    def decode(self, text: str) -> dict[str, object]:
        """JSON text as keyword arguments."""
        if text == "{}" and not self._parameters:
            return {}
        try:
            return self._validator.validate_json(text)
        except ValidationError as problem:
            raise BadPayload(self.key, _paths(problem)) from problem

    def _by_position(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Names for what was given without; `inspect` would do it, and take half the time of the whole call."""
        if len(args) > len(self._positional):
            problem = f"takes at most {len(self._positional)} arguments by position, and {len(args)} were given"
            raise BadPayload(self.key, [("", problem)])
        named = dict(zip(self._positional, args, strict=False))
        twice = named.keys() & kwargs.keys()
        if twice:
            raise BadPayload(self.key, [(name, "given twice: by position and by name") for name in sorted(twice)])
        return named

    def _dump(self, valid: dict[str, object]) -> str:
        try:
            return self._adapter.dump_json(valid).decode()
        except (ValueError, TypeError, RecursionError) as problem:
            raise BadPayload(self.key, [("", str(problem))]) from problem


class SchemaPayload:
    """The payload of a command: JSON Schema, with no reference leading outside."""

    wants_context = False

    def __init__(self, key: str, schema: Mapping[str, object]) -> None:
        self.key = key
        self.result = Result(key)
        self.schema = dict(schema)
        try:
            self._validator = jsonschema_rs.validator_for(self.schema, retriever=_refuse_reference)
        except (ValueError, jsonschema_rs.ReferencingError) as problem:
            msg = f"The schema of {key!r} is not valid JSON Schema: {problem}"
            raise UsageError(msg) from problem

    def encode_payload(self, payload: Mapping[str, object]) -> str:
        """A payload as checked JSON text."""
        text = encode(dict(payload))
        self.decode(text)
        return text

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        """The same, from keyword arguments."""
        if args:
            raise BadPayload(self.key, [("", "a command takes keyword arguments only")])
        return self.encode_payload(kwargs)

    def decode(self, text: str) -> dict[str, object]:
        """JSON text as a dictionary that fits the schema."""
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as problem:
            raise BadPayload(self.key, [("", f"it cannot be read: {problem}")]) from problem
        errors = [("/".join(str(step) for step in e.instance_path), e.message) for e in self._validator.iter_errors(value)]
        if errors or not isinstance(value, dict):
            raise BadPayload(self.key, errors or [("", "it is not an object")])
        return cast("dict[str, object]", value)


def _refuse_reference(uri: str) -> NoReturn:
    msg = f"references to other documents are refused: {uri}"
    raise ValueError(msg)


def _hints(function: Callable[..., object], key: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as problem:
        msg = f"The annotations of {key!r} cannot be resolved ({problem}): import those names at module level."
        raise UsageError(msg) from problem


def _refuse_variadic(key: str, parameters: list[inspect.Parameter]) -> None:
    for parameter in parameters:
        if parameter.kind in _VARIADIC:
            msg = f"{key!r} takes {parameter}: a job's payload has named fields, so name each parameter."
            raise UsageError(msg)


def _adapter(key: str, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> TypeAdapter[dict[str, object]]:
    fields = {p.name: hints.get(p.name, Any) if p.default is p.empty else NotRequired[hints.get(p.name, Any)] for p in parameters}
    shape: Any = TypedDict("shape", fields)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
    shape.__pydantic_config__ = ConfigDict(extra="forbid", regex_engine="rust-regex")
    try:
        return TypeAdapter(cast("type[dict[str, object]]", shape))
    except (PydanticSchemaGenerationError, PydanticUserError) as problem:
        msg = f"A parameter of {key!r} has a type that has no JSON form: {str(problem).splitlines()[0]}"
        raise UsageError(msg) from problem


def _paths(problem: ValidationError) -> list[tuple[str, str]]:
    return [
        (".".join(str(step) for step in e["loc"]), e["msg"]) for e in problem.errors(include_url=False, include_context=False)
    ]
