"""A job's result, read back from JSON as what its function says it returns."""

from types import UnionType
from typing import Any, Union, get_args, get_origin
from uuid import UUID

import orjson
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from windlass.model import Done, Outcome
from windlass.model.errors import UsageError

_OUTCOMES = get_args(Outcome)


class Result:
    """What one definition's jobs return. The way to read it is made when it is first needed, which is not where jobs
    are only enqueued.
    """

    def __init__(self, key: str, annotation: Any = Any) -> None:
        self._key, self._annotation = key, _without_outcomes(annotation)
        self._adapter: TypeAdapter[Any] | None = None

    def read(self, job_id: UUID, value: object) -> Any:
        """The result as the function returned it; raises UsageError if it is not what the annotation says."""
        if self._annotation is Any:
            return value
        self._adapter = self._adapter or self._make()
        try:
            # By field names, for so a model's fields were stored.
            return self._adapter.validate_json(orjson.dumps(value), by_alias=True, by_name=True)
        except ValidationError as problem:
            told = "; ".join(f"{'.'.join(map(str, e['loc'])) or '(result)'}: {e['msg']}" for e in problem.errors())
            msg = f"Job {job_id} did not return what {self._key!r} is annotated to return: {told}. {_INSTEAD}"
            raise UsageError(msg) from problem

    def _make(self) -> TypeAdapter[Any]:
        try:
            return TypeAdapter(self._annotation)
        except (PydanticSchemaGenerationError, PydanticUserError) as problem:
            told = str(problem).splitlines()[0].partition(". ")[0]
            msg = f"{self._key!r} is annotated to return what cannot be read back from JSON: {told}. {_INSTEAD}"
            raise UsageError(msg) from problem


_INSTEAD = "Put the annotation right, or read the bare JSON: `(await job.view()).result`."


def _without_outcomes(annotation: Any) -> Any:
    """`str | Retry` is a `str` if it ends well; what a `Done` holds nobody knows."""
    kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    results = tuple(kind for kind in kinds if kind not in _OUTCOMES)
    if len(results) == len(kinds):
        return annotation
    union: Any = Union
    return union[results] if results and Done not in kinds else Any
