"""`/v1/embeddings`, through the SDK, LangChain and by hand."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from fakes.app_server import KEY, Serving
from fakes.sdk import MARKS
from retinue.documents.embedding import MiniLM
from retinue.limits.rate import Bounds, KeyLimits
from retinue.store.api_keys import create_key

pytestmark = [*(MARKS if isinstance(MARKS, list) else [MARKS]), pytest.mark.model]
TEXTS = ["The cat sleeps.", "A kitten naps.", "Interest rates rose."]
LONG = "Paris is the capital of France. " * 100


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("embeddings")) as served:
        yield served


@pytest.fixture(scope="module")
def sdk(at: Serving) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{at.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def ask(at: Serving, given: Any, **more: Any) -> Any:
    said = at.ask("POST", "/v1/embeddings", {"model": "minilm", "input": given, **more})
    assert said.status == 200, said.text
    return said.body


def product(one: Any, other: Any) -> float:
    return float(sum(a * b for a, b in zip(one, other, strict=True)))


def test_the_sdk(sdk: openai.OpenAI) -> None:
    """It asks for base64, if nothing is said."""
    made = sdk.embeddings.create(model="minilm", input=TEXTS)
    cat, kitten, rates = (one.embedding for one in made.data)
    assert [len(one) for one in (cat, kitten, rates)] == [384] * 3
    assert [one.index for one in made.data] == [0, 1, 2]
    assert product(cat, kitten) > 0.5 > product(cat, rates)
    assert (made.object, made.model, made.usage.prompt_tokens) == ("list", "minilm", made.usage.total_tokens)
    assert made.usage.total_tokens == 13
    plain = sdk.embeddings.create(model="minilm", input=TEXTS[0], encoding_format="float", dimensions=384)
    assert plain.data[0].embedding == pytest.approx(cat)


def test_the_forms_of_vectors(at: Serving) -> None:
    (plain,) = ask(at, "The cat sleeps.", encoding_format="float")["data"]
    (packed,) = ask(at, ["The cat sleeps."], encoding_format="base64")["data"]
    assert struct.unpack("<384f", base64.b64decode(packed["embedding"])) == pytest.approx(plain["embedding"])
    assert plain["embedding"] == pytest.approx(MiniLM().embed(["The cat sleeps."])[0].tolist(), abs=1e-5)
    assert ask(at, "The cat sleeps.")["data"] == [plain]


def test_langchain(at: Serving) -> None:
    with openai.DefaultHttpxClient() as http:
        made: Any = {"base_url": f"{at.url}/v1", "api_key": KEY, "http_client": http}
        from langchain_openai import OpenAIEmbeddings

        embeddings = OpenAIEmbeddings(model="minilm", check_embedding_ctx_length=False, **made)
        cat, rates = embeddings.embed_documents([TEXTS[0], TEXTS[2]])
        query = embeddings.embed_query("a sleeping cat")
    assert product(query, cat) > product(query, rates)


def test_a_text_is_seen_to_its_end(at: Serving) -> None:
    """Though the model sees 256 tokens at once."""
    plain, other = ask(at, [LONG, f"{LONG} {'The cat sleeps. ' * 100}"])["data"]
    assert product(plain["embedding"], other["embedding"]) < 0.95
    assert product(other["embedding"], other["embedding"]) == pytest.approx(1.0)
    assert ask(at, LONG)["usage"]["total_tokens"] == 700


@pytest.mark.parametrize(
    ("asked", "status", "param", "code"),
    [
        ({"model": "minilm"}, 400, "input", "missing_required_parameter"),
        ({"input": "Hi"}, 400, "model", "missing_required_parameter"),
        ({"model": "agent-1", "input": "Hi"}, 404, "model", "model_not_found"),
        ({"model": "minilm", "input": ""}, 400, "input", "invalid_value"),
        ({"model": "minilm", "input": []}, 400, "input", None),
        ({"model": "minilm", "input": ["a", " "]}, 400, "input", "invalid_value"),
        ({"model": "minilm", "input": ["a"] * 2049}, 400, "input", None),
        ({"model": "minilm", "input": [1, 2, 3]}, 400, "input", "invalid_type"),
        ({"model": "minilm", "input": [[1, 2], [3]]}, 400, "input", "invalid_type"),
        ({"model": "minilm", "input": {"a": 1}}, 400, "input", "invalid_type"),
        ({"model": "minilm", "input": "Hi", "dimensions": 256}, 400, "dimensions", "invalid_value"),
        ({"model": "minilm", "input": "Hi", "encoding_format": "int8"}, 400, "encoding_format", "invalid_value"),
        ({"model": "minilm", "input": "hi " * 9000}, 400, "input", "context_length_exceeded"),
        ({"model": "minilm", "input": ["hi " * 8000] * 38}, 400, "input", "max_tokens_per_request"),
    ],
)
def test_what_is_refused(at: Serving, asked: Any, status: int, param: str, code: str | None) -> None:
    said = at.ask("POST", "/v1/embeddings", asked)
    assert (said.status, said.error["param"]) == (status, param), said.text
    assert code in (None, said.error["code"])


def test_what_clients_of_tokens_are_told(at: Serving) -> None:
    said = at.ask("POST", "/v1/embeddings", {"model": "minilm", "input": [[9906]]})
    assert "check_embedding_ctx_length=False" in said.error["message"]


def test_it_is_a_model(at: Serving) -> None:
    assert "minilm" in [one["id"] for one in at.ask("GET", "/v1/models").body["data"]]
    assert at.ask("GET", "/v1/models/minilm").body["id"] == "minilm"
    assert at.ask("DELETE", "/v1/models/minilm").status == 403
    assert at.ask("POST", "/v1/chat/completions", {"model": "minilm", "messages": []}).status in (400, 404)


def test_who_may_ask(at: Serving) -> None:
    reading, running = (at.in_loop(at.database.write(partial(create_key, scopes=(one,)))) for one in ("read", "runs"))
    asked = {"model": "minilm", "input": "Hi"}
    assert at.ask("POST", "/v1/embeddings", asked, key=reading).status == 403
    assert at.ask("POST", "/v1/embeddings", asked, key=running).status == 200


def test_its_tokens_count(tmp_path: Path) -> None:
    with Serving(tmp_path, limits=KeyLimits(Bounds(tokens=5))) as at:
        asked = {"model": "minilm", "input": " ".join(TEXTS)}
        assert at.ask("POST", "/v1/embeddings", asked).status == 200
        assert at.ask("POST", "/v1/embeddings", asked).error["code"] == "rate_limit_exceeded"


def test_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_CACHE", str(tmp_path))
    with Serving(tmp_path) as at:
        said = at.ask("POST", "/v1/embeddings", {"model": "minilm", "input": "Hi"})
        assert (said.status, said.error["code"]) == (503, "model_not_installed")
        assert "retinue models pull minilm" in said.error["message"]
        assert "minilm" not in at.ask("GET", "/v1/models").text
