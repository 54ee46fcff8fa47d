"""What an engine is told about the model it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..net.retry import Retries
from ..net.time_limits import TimeLimits

Api = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a `PromptModel`, as its engine gets them.

    `model`: the engine's own name of the model, or a path; empty for the engine's default. `options`
    are sent with every request as they are. `context` is the window in tokens, of the embedded engine and of
    Ollama. `limits`: the engine's own if `None`.
    """

    model: str = ""
    base_url: str | None = None
    api_key: str | None = None
    api: Api | None = None
    dialect: str | None = None
    stream: bool = True
    temperature: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    script: Sequence[Any] | None = None
    context: int = 8192
    retries: Retries = field(default_factory=Retries)
    limits: TimeLimits | None = None
