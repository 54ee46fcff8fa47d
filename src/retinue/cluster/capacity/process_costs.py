"""What a run costs each process, as `make capacity` measures it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from annotated_types import Ge

from ...errors import UsageError

NotNegative: TypeAlias = "Annotated[float, Ge(0)]"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU of a run apart from its steps, of each step, and of each second in which nothing happens."""

    run: NotNegative = 0.0
    step: NotNegative = 0.0
    idle: NotNegative = 0.0


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of each kind of process.

    Attributes:
        clients, endpoint: only where these share the machine
        dispatch_seconds: that a run waits for messages between processes, whatever the load
        commit_seconds: that a commit takes, besides CPU
        commits_run, commits_step: transactions of a run apart from its steps, and of each step
        bytes_run, bytes_step: that the database grows by, for steps with little text
    """

    server: Cost
    worker: Cost
    postgres: Cost
    temporal: Cost
    clients: Cost = Cost()
    endpoint: Cost = Cost()
    dispatch_seconds: NotNegative = 0.05
    commit_seconds: NotNegative = 0.003
    commits_run: NotNegative = 10.0
    commits_step: NotNegative = 4.0
    bytes_run: NotNegative = 4_000.0
    bytes_step: NotNegative = 1_500.0


MEASURED = Costs(
    server=Cost(run=0.018),
    worker=Cost(run=0.008, step=0.007),
    postgres=Cost(run=0.006, step=0.001),
    temporal=Cost(run=0.040),
)


def read_costs(file: Path) -> Costs:
    """Read costs from a file that `make capacity` wrote. Raises `UsageError`."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

    try:
        strict = with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
        return TypeAdapter(strict(Costs)).validate_json(file.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(f"{file}: {where}: {first['msg']}; make capacity writes such files") from error
