"""`/embeddings`: text embeddings by the bundled embedder."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import Field

from ...documents.embedding import load_minilm, normalize_vectors
from ...errors import UsageError
from ...models import weights
from ..context import ContextDep
from ..http.api_errors import ApiError, no_model
from ..http.common_schemas import ByJson, Wire
from ..http.limits import check_tokens, too_many
from ..http.request_body import JsonRoute

if TYPE_CHECKING:
    from ...documents.embedding import Floats


router = APIRouter(route_class=JsonRoute)
MODEL = "minilm"
_BATCH = 16  # pieces embedded together
_LONGEST, _MOST = 8_192, 300_000  # tokens per text, and per request
_WAITING = 2_000  # batches per tenant
_Text = Annotated[str, Field(max_length=1_000_000)]
_Tokens = Annotated[int, Field(ge=0)]
_OneOrMany = Annotated[
    _Text | Annotated[list[_Text | _Tokens | list[_Tokens]], Field(min_length=1, max_length=2_048)],
    ByJson("one of a string or an array of strings"),
]


class EmbeddingsCreate(Wire):
    """`POST /embeddings`."""

    model: str
    input: _OneOrMany
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    user: str | None = None


def is_here() -> bool:
    """Whether the embedder is installed: its weights, and the extra `rank`."""
    has_weights = weights.read_bundles()[MODEL].is_here
    return has_weights and all(find_spec(name) is not None for name in ("numpy", "onnxruntime", "tokenizers"))


@router.post("/embeddings")
async def create(body: EmbeddingsCreate, context: ContextDep) -> Response:
    """Embed each text as a vector. A text longer than the model's window gets the mean of its pieces' vectors."""
    texts = _read_texts(body)
    tenant, limits, key_id = context.scope.tenant, context.server.limits, context.scope.key_id or ""
    check_tokens(limits, key_id)
    batches = context.server.shares.embedding
    if batches.waiting(tenant) + len(texts) // _BATCH > _WAITING:
        raise too_many("queued embeddings", _WAITING)
    try:
        (pieces,) = await batches.run(tenant, [partial(_split_texts, texts, body.dimensions)])
        tokens = [sum(count for _, count in of_one) for of_one in pieces]
        if (longest := max(tokens)) > _LONGEST:
            said = f"This model's maximum context length is {_LONGEST} tokens, however you requested {longest} tokens."
            raise ApiError(400, said, param="input", code="context_length_exceeded")
        if sum(tokens) > _MOST:
            said = f"Invalid 'input': a request may have at most {_MOST} tokens, but this one has {sum(tokens)}."
            raise ApiError(400, said, param="input", code="max_tokens_per_request")
        flat = [text for of_one in pieces for text, _ in of_one]
        parts = [flat[begin : begin + _BATCH] for begin in range(0, len(flat), _BATCH)]
        vectors = await batches.run(tenant, [partial(load_minilm().embed, part) for part in parts])
    except UsageError as error:
        raise _not_here() from error
    limits.spent(key_id, sum(tokens))
    (content,) = await batches.run(tenant, [partial(_format_vectors, pieces, vectors, sum(tokens), body)])
    return Response(content, media_type="application/json")


def _read_texts(body: EmbeddingsCreate) -> list[str]:
    """Return the texts of a request. Raises `ApiError` for token input, for empty text, and for an unknown model."""
    if body.model != MODEL:
        raise no_model(body.model, [MODEL])
    if not is_here():
        raise _not_here()
    given = [body.input] if isinstance(body.input, str) else body.input
    texts = [one for one in given if isinstance(one, str)]
    if len(texts) < len(given):
        message = (
            "Invalid 'input': this model has a tokenizer of its own, so tokens cannot be used. Send text "
            "(LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False))."
        )
        raise ApiError(400, message, param="input", code="invalid_type")
    for number, text in enumerate(texts):
        if not text.strip():
            at = f"input[{number}]" if isinstance(body.input, list) else "input"
            raise ApiError(400, f"Invalid '{at}': a text must not be empty.", param="input", code="invalid_value")
    return texts


def _split_texts(texts: Sequence[str], dimensions: int | None) -> list[list[tuple[str, int]]]:
    """Split the texts into pieces that fit the model's window. Raises `ApiError` for unsupported dimensions."""
    if dimensions not in (None, load_minilm().dimensions):
        message = f"This model does not support specifying dimensions: its vectors have {load_minilm().dimensions}."
        raise ApiError(400, message, param="dimensions", code="invalid_value")
    return [load_minilm().pieces(text) or [(text, 1)] for text in texts]


def _format_vectors(
    pieces: Sequence[Sequence[tuple[str, int]]], vectors: Sequence[Floats], tokens: int, body: EmbeddingsCreate
) -> bytes:
    """Return the response body as JSON."""
    import numpy

    rows, data, begin = numpy.concatenate(vectors), list[dict[str, Any]](), 0
    for number, of_one in enumerate(pieces):
        weights = numpy.array([count for _, count in of_one], numpy.float32)
        vector = normalize_vectors(weights @ rows[begin : begin + len(of_one)] / weights.sum())
        begin += len(of_one)
        raw = base64.b64encode(vector.astype("<f4").tobytes()).decode() if body.encoding_format == "base64" else None
        data.append({"object": "embedding", "index": number, "embedding": vector.tolist() if raw is None else raw})
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json.dumps({"object": "list", "data": data, "model": MODEL, "usage": usage}).encode()


def _not_here() -> ApiError:
    message = (
        f"The model '{MODEL}' is not installed on this server. Its operator can install it: pip install "
        f"'retinue[rank]', then retinue models pull {MODEL}."
    )
    headers = {"x-should-retry": "false"}
    return ApiError(503, message, kind="server_error", code="model_not_installed", headers=headers)
