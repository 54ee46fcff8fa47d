"""The provider of a model, by the names of the conventions."""

from __future__ import annotations

_NAMES = {"local": "retinue", "scripted": "retinue"}  # the others are called like their engines
_DEPTH = 5


def provider_of(model: object) -> str:
    """Return the name of a model's provider: that of its engine; empty if it is not known. Models may wrap others."""
    for _ in range(_DEPTH):
        engine = getattr(model, "engine", None)
        if isinstance(engine, str):
            return _NAMES.get(engine, engine)
        model = getattr(model, "inner", None)
    return ""
