"""What a measurement answers, and how rounds become one figure."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from windlass.model.errors import WindlassError

T = TypeVar("T")
Figure = float | int | list[float] | None


class MeasureError(WindlassError):
    """What was to be measured did not happen."""


@dataclass(frozen=True, slots=True)
class Result:
    """One line: its name, and its figures by theirs."""

    name: str
    figures: dict[str, Figure]


@dataclass(slots=True)
class Ceilings:
    """Every round of bare SQL in this run, in operations per second."""

    claim_settle: list[float] = field(default_factory=list[float])
    insert_commit: list[float] = field(default_factory=list[float])


async def in_turns(rounds: int, *bodies: Callable[[], Awaitable[T]]) -> list[list[T]]:
    """Run the bodies in turns, every other round backwards, so that none always comes first; answers what each said."""
    said: list[list[T]] = [[] for _ in bodies]
    for turn in range(rounds):
        order = range(len(bodies)) if turn % 2 == 0 else reversed(range(len(bodies)))
        for which in order:
            said[which].append(await bodies[which]())
    return said


def ratio(rates: Sequence[float], others: Sequence[float]) -> float:
    """The median over the rounds of one rate to the other of the same round."""
    return median(rate / other for rate, other in zip(rates, others, strict=True))


def rated(name: str, rates: Sequence[float], ceiling: Sequence[float], **more: Figure) -> Result:
    """A line that is a rate with a ceiling."""
    return Result(name, {
        "per_s": median(rates), "ratio": ratio(rates, ceiling), **more,
        "ceiling_per_s": median(ceiling), "rounds": list(rates),
    })  # fmt: skip
