"""The settings of an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from .._internal.message_text import suggest_name
from ..core.protocols import list_kinds
from ..core.values import Kind
from ..errors import UsageError
from ..net.retry import Retries, TimeLimits

if TYPE_CHECKING:
    from ..net.http_client import Sign

Api = Literal["chat", "completions", "responses"]
Reason = Literal["unavailable", "rate", "too_long", "refused"]  # for which a model gives way to the next
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]
Summary = Literal["auto", "concise", "detailed"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a `PromptModel`, as passed to its engine.

    `model`: the engine's name of the model, or a path; empty for the default. `options` are added to every request
    unchanged. `temperature`, `effort`, `verbosity`, `thinking_tokens` (the most that the model may think) and `summary`
    (of its thoughts) are sent only if they are set, under each vendor's own names. `context`: context window in tokens,
    for the embedded engine and Ollama. `limits`: `None` for the engine's own. `sign`: returns further headers for a
    request, such as its signature. `sees`: whether the model can be sent images, or the kinds of files that it can be
    sent (`image`, `pdf`, `audio`), where the engine does not tell. `price`: the prices of a million tokens (`input`,
    `output`, and `cached` input), in any currency.
    """

    model: str = ""
    base_url: str | None = None
    api_key: str | None = None
    api: Api | None = None
    dialect: str | None = None
    stream: bool = True
    temperature: float | None = None
    effort: Effort | None = None
    verbosity: Verbosity | None = None
    thinking_tokens: int | None = None
    summary: Summary | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    script: Sequence[Any] | None = None
    context: int = 8192
    retries: Retries = field(default_factory=Retries)
    limits: TimeLimits | None = None
    sign: Sign | None = None
    sees: bool | Sequence[Kind] | None = None
    price: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if wrong := list_kinds(self.sees) - frozenset(get_args(Kind)):
            raise UsageError(f"sees: want true, false or a list of {', '.join(get_args(Kind))}, not {min(wrong)!r}")
        for name, kind in (("api", Api), ("effort", Effort), ("verbosity", Verbosity), ("summary", Summary)):
            given: str | None = getattr(self, name)
            if given and given not in get_args(kind):
                raise UsageError(f"no {name} {given!r}; {suggest_name(given, get_args(kind))}")
