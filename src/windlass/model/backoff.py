"""How long to wait before the next try. Pure: attempt and a random number in, seconds out."""

import math
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Literal

from windlass.model.durations import seconds


@dataclass(frozen=True, slots=True)
class Backoff:
    """A retry policy (API §4.1). `jitter` 0.1 spreads each delay by ±10 %."""

    kind: Literal["exponential", "fixed"] = "exponential"
    delay_seconds: float = 2.0
    factor: float = 2.0
    max_seconds: float = 3600.0
    jitter: float = 0.1

    def delay(self, attempt: int, chance: float = 0.5) -> float:
        """Seconds to wait after try number `attempt` failed; `chance` in [0, 1) picks within the jitter."""
        plain = self._plain(max(attempt, 1))
        spread = plain * self.jitter * (2 * chance - 1)
        return min(max(plain + spread, 0.0), self.max_seconds)

    def _plain(self, attempt: int) -> float:
        if self.kind == "fixed" or self.factor == 1 or self.delay_seconds == 0:
            return min(self.delay_seconds, self.max_seconds)
        if self.factor <= 0:
            return self.delay_seconds if attempt == 1 else 0.0
        # In logarithms, because the power of a large attempt number overflows before the cap can cut it.
        power = math.log(self.delay_seconds) + (attempt - 1) * math.log(self.factor)
        if power >= math.log(self.max_seconds) if self.max_seconds > 0 else True:
            return self.max_seconds
        return math.exp(power)

    def as_dict(self) -> dict[str, object]:
        """The form stored in a definition."""
        return asdict(self)


def exponential(
    delay: float | str | timedelta = 2.0,
    *,
    factor: float = 2.0,
    cap: float | str | timedelta = 3600.0,
    jitter: float = 0.1,
) -> Backoff:
    """Delays that grow: `delay`, `delay * factor`, … up to `cap`."""
    return Backoff("exponential", seconds(delay), factor, seconds(cap), jitter)


def fixed(delay: float | str | timedelta, *, jitter: float = 0.1) -> Backoff:
    """The same delay before each retry."""
    return Backoff("fixed", seconds(delay), 1.0, seconds(delay) * (1 + jitter), jitter)
