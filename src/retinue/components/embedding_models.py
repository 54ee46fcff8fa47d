"""Which model embeds: one that is given, or one that a file names by a text."""

from __future__ import annotations

from ..documents.embedding import Embedder, MiniLM, OnnxEmbedder
from ..errors import UsageError
from .hosted_models import HostedEmbedder


def embedder(given: Embedder | str, name: str) -> Embedder:
    """`given`, or what it names: `minilm`, `openai:MODEL`, or the folder of a sentence-transformers model as
    ONNX; `name` is who asks.

    Raises `UsageError` for anything else, and if what it needs is not here.
    """
    if not isinstance(given, str):
        return given
    if given == "minilm":
        return MiniLM()
    service, _, model = given.partition(":")
    if service == "openai" and model:
        return HostedEmbedder(model)
    if not given.strip() or service == "openai":
        raise UsageError(f"{name}: want minilm, openai:MODEL or a folder, not {given!r}")
    return OnnxEmbedder(given)
