"""The settings of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from .._internal.suggestions import suggestion
from ..core.protocols import kinds_of
from ..core.values import Kind
from ..errors import UsageError
from ..net.retry import Retries
from ..net.time_limits import TimeLimits

Api = Literal["chat", "completions", "responses"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a `PromptModel`, as passed to its engine.

    `model`: the engine's name of the model, or a path; empty for the default. `options` are added to every request
    unchanged. `temperature`, `effort` (`none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`), `verbosity`
    (`low`, `medium` or `high`) and `thinking_tokens` (the most that the model may think) are sent only if they are
    set, under each vendor's own names. `context`: context window in tokens, for the embedded engine and Ollama.
    `limits`: `None` for the engine's own. `headers`: returns further headers of a request with this body. `sees`:
    whether the model can be sent images, or the kinds of files that it can be sent (`image`, `pdf`, `audio`), where the
    engine does not tell. `price`: the prices of a million tokens
    (`input`, `output`, and `cached` input), in any currency.
    """

    model: str = ""
    base_url: str | None = None
    api_key: str | None = None
    api: Api | None = None
    dialect: str | None = None
    stream: bool = True
    temperature: float | None = None
    effort: str = ""
    verbosity: str = ""
    thinking_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    script: Sequence[Any] | None = None
    context: int = 8192
    retries: Retries = field(default_factory=Retries)
    limits: TimeLimits | None = None
    headers: Callable[[bytes], Mapping[str, str]] | None = None
    sees: bool | Sequence[Kind] | None = None
    price: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if wrong := kinds_of(self.sees) - frozenset(get_args(Kind)):
            raise UsageError(f"sees: want true, false or a list of {', '.join(get_args(Kind))}, not {min(wrong)!r}")
        if self.api is not None and self.api not in get_args(Api):
            raise UsageError(f"no api {self.api!r}; {suggestion(self.api, get_args(Api))}")
