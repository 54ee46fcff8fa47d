"""What all specs are made of: their base, and the types of their values."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field

Name = Annotated[str, Field(min_length=1, max_length=200)]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,64}$")]
Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Effects = Literal["read", "idempotent", "once"]


def one_of(**kinds: type) -> Discriminator:
    """Return a discriminator by value type; its tags cannot be keys of a file."""
    said = {
        "path": "a file or folder",
        "text": "a text",
        "items": "a list",
        "map": "a mapping",
        "flag": "true or false",
    }

    def kind(value: Any) -> str | None:
        if isinstance(value, Spec):
            return "<map>"
        return next((f"<{name}>" for name, type_ in kinds.items() if isinstance(value, type_)), None)

    *most, last = [said[name] for name in kinds]
    return Discriminator(kind, "kind", f"{', '.join(most)} or {last}")


class Spec(BaseModel):
    """The base of all specs: strict and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())
