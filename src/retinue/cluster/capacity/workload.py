"""What is simulated: the load, the model endpoint, and the fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .process_costs import MEASURED, Costs


@dataclass(frozen=True, slots=True)
class Workload:
    """Runs that come by chance, `per_second` of them, or from `clients` of which each has one run at a time.

    Attributes:
        steps: the shares of runs with so many steps; a step is a reply of the model
        tool_seconds: for each step but the last
        tool_spread: the coefficient of variation of these: 0 is constant, 1 exponential
        asks: the share of runs that wait for a person once, without a place
        person_seconds: how long a person takes
    """

    per_second: float = 0.0
    clients: int = 0
    steps: Mapping[int, float] = field(default_factory=lambda: {5: 1.0})
    tool_seconds: float = 0.0
    tool_spread: float = 0.0
    asks: float = 0.0
    person_seconds: float = 600.0

    @property
    def mean_steps(self) -> float:
        """The steps of a run on average."""
        return sum(steps * share for steps, share in self.steps.items()) / sum(self.steps.values())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model endpoint. What is 0 has no limit.

    Attributes:
        seconds: that a reply takes
        spread: their coefficient of variation
        places: replies that are made side by side; further requests wait
        requests_per_minute: beyond which it refuses, with `Retry-After`
        tokens_per_minute: likewise
        tokens: of a request and its reply together
        burst_seconds: for so many seconds' worth of its limits it lets requests come at once
    """

    seconds: float = 2.0
    spread: float = 0.5
    places: int = 0
    requests_per_minute: float = 0.0
    tokens_per_minute: float = 0.0
    tokens: int = 2_000
    burst_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Servers that accept runs and workers with `places` each.

    Attributes:
        cores: that everything shares, the clients and the model too, less what other programs take; 0: each process
            has a core of its own
        database_cores: that PostgreSQL has for itself if `cores` is 0
    """

    servers: int = 1
    workers: int = 1
    places: int = 200
    cores: float = 0.0
    database_cores: float = 32.0
    costs: Costs = MEASURED
