"""Resolves an embedder that is passed as an object or named in a file."""

from __future__ import annotations

from ..documents.embedding import Embedder, MiniLM, OnnxEmbedder
from ..errors import UsageError
from .hosted_models import HostedEmbedder


def embedder(given: Embedder | str, name: str) -> Embedder:
    """Return the embedder `given`, or the one it names: `minilm`, `openai:MODEL`, or the folder of a
    sentence-transformers model as ONNX. `name` is the caller's name for errors.

    Raises `UsageError` for anything else, and if a requirement is not installed.
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
