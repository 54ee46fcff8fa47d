"""`PromptModel`: one model at one engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any, Protocol

from .._internal.message_text import find_nearest, format_repr, suggest_name
from .._internal.redaction import strip_address_secrets
from .._internal.sync_bridge import run_blocking, shorten_traceback
from ..core.completion import ask_once
from ..core.component import Configurable
from ..core.prices import Price, find_listed_price, find_price
from ..core.prompt import Ask
from ..core.protocols import Chunks, Model, list_readable_kinds
from ..core.values import Capabilities, Kind, Message, Reply
from ..errors import RetinueError, UsageError
from ..net.retry import Retries
from .fallbacks import FALL_BACK_ON, Fallbacks
from .settings import Reason, Settings
from .vendors import NAMES as VENDOR_NAMES


class Engine(Model, Protocol):
    """What a `PromptModel` delegates to; each engine is a file in this folder."""

    async def close(self) -> None:
        """Close the running event loop's connections."""
        ...


ENGINES = ("local", *VENDOR_NAMES, "scripted")
_OTHER_NAMES = {"llm_engine": "engine", "llm_endpoint_url": "base_url", "llm_model_id": "model_name_or_path"}


class PromptModel(Configurable):
    """A client of one model at one engine: text in, text or tool calls out, streamed, with token usage.

    Raises `UsageError` for an unknown engine or setting, missing weights, or a missing key.

    Args:
        model_name_or_path: A model's name; `ENGINE:NAME` (`openai:gpt-5-mini`); `ENGINE:NAME@URL`
            (`vllm:Qwen/Qwen3-8B@http://host:8000`); `local` for the embedded model; `local:NAME` for a pulled one; or
            the path of a GGUF file.
        models: Several names or `Model`s instead, in order; the settings are those of the names. Where one gives way,
            the next is asked.
        fall_back_on: For which reasons one gives way: `unavailable`, `rate` (the first two by default), `too_long` and
            `refused`.
        engine: By default the engine in the name, or else `openai`: any OpenAI-compatible server, at `base_url` or
            OpenAI's own. `llm_engine`, `llm_endpoint_url` and `llm_model_id` are aliases of engine, base_url and model.
        api_key: By default read from the vendor's environment variable.
        settings: Those of `Settings`, e.g. `stream`, `temperature`, `api`, `dialect`, `options`, `retries`, `limits`,
            `price`.
    """

    def __init__(
        self,
        model_name_or_path: str = "",
        *,
        engine: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        models: Sequence[str | Model] = (),
        fall_back_on: Annotated[Sequence[str], Reason] = FALL_BACK_ON,
        **settings: Any,
    ) -> None:
        if models:
            self._use_models(models, fall_back_on)
            return
        given: dict[str, Any] = {"engine": engine, "base_url": base_url, "model_name_or_path": model_name_or_path}
        for other, name in _OTHER_NAMES.items():
            value = settings.pop(other, None)
            if value and given[name]:
                raise UsageError(f"PromptModel: {other} is an alias of {name}; set only one of them")
            given[name] = value or given[name]
        text, at, url = given["model_name_or_path"].partition("@http")
        named, name = _split_name(text)
        engine, base_url = given["engine"], f"http{url}" if at else given["base_url"]
        if ":" in name and not (named or engine or base_url or os.environ.get("OPENAI_BASE_URL")):
            engine = name.partition(":")[0]  # names of models at other servers may contain a colon
        kind = engine or named or ("openai" if name or base_url else "scripted" if "script" in settings else "local")
        self._kind = kind
        self._about: dict[str, Any] = {"engine": kind, "base_url": base_url and strip_address_secrets(base_url)}
        if kind not in ENGINES:
            raise UsageError(f"no engine {kind!r}; {suggest_name(kind, ENGINES)}")
        if not (named or engine or base_url):
            _check_spelling(name)
        self._engine = _make_engine(kind, {"model": name, "base_url": base_url, "api_key": api_key, **settings})
        price = settings.get("price")
        self._price = None if price is None else Price.of(price)

    def _use_models(self, models: Sequence[str | Model], fall_back_on: Sequence[str]) -> None:
        of_one = ("model_name_or_path", "engine", "base_url", "api_key", *_OTHER_NAMES)
        if isinstance(models, str):
            raise UsageError(f"PromptModel: models: want a list of names or models, not {models!r:.80}")
        if wrong := [key for key in of_one if self.given.get(key)]:
            raise UsageError(f"PromptModel: {wrong[0]} is of one model; give `models` a PromptModel that has it")
        own = {key: self.given[key] for key in self.given if key not in ("models", "fall_back_on", *of_one)}
        sooner = {"retries": Retries(tries=2)} | own  # of one that is followed by another
        made = (
            PromptModel(one, **(own if at == len(models) else sooner)) if isinstance(one, str) else one
            for at, one in enumerate(models, 1)
        )
        self._kind, self._about, self._price = "fallbacks", {"models": len(models)}, None
        self._engine = Fallbacks(made, fall_back_on)

    def __repr__(self) -> str:
        engine = getattr(self, "_engine", None)  # there is none if the constructor raised
        return format_repr(self, engine and engine.name, **getattr(self, "_about", {}))

    @property
    def name(self) -> str:
        """The model's name at its engine."""
        return self._engine.name

    @property
    def engine(self) -> str:
        """The engine's name, one of `ENGINES`, or `fallbacks` for several models."""
        return self._kind

    @property
    def price(self) -> Price | None:
        """Its prices: its own, or those of the list of prices, or else published ones. `find_price` finds them."""
        return self._price or find_listed_price(self._kind, self.name) or find_price(self._engine)

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return what engine and model support; `native` probes native tool calls, once. Raises `ModelError`."""
        return await self._engine.abilities(native=native)

    async def sees(self) -> frozenset[Kind]:
        """Return the kinds of files that the model can be sent; the engine is asked where it can tell. Raises
        `ModelError`."""
        return await list_readable_kinds(self._engine)

    def reply(self, request: Ask) -> Chunks:
        """Stream the reply; the last item is the complete `Reply`. Raises `ModelError`."""
        chunks = self._engine.reply(request)
        price = None if isinstance(self._engine, Fallbacks) else self.price  # each reply has its own model's cost
        return chunks if price is None else _add_cost(chunks, price)

    async def run_async(
        self, prompt: str | Sequence[Message], *, stop: Sequence[str] = (), max_tokens: int | None = None
    ) -> Reply:
        """The model's reply to a text or a conversation, without any agent. Raises `ModelError`."""
        return await ask_once(self, prompt, stop=stop, max_tokens=max_tokens)

    def run(self, prompt: str | Sequence[Message], *, stop: Sequence[str] = (), max_tokens: int | None = None) -> Reply:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(prompt, stop=stop, max_tokens=max_tokens))

    async def close(self) -> None:
        """Close the running event loop's connections. They also close with the loop."""
        await self._engine.close()


async def _add_cost(chunks: Chunks, price: Price) -> Chunks:
    async with aclosing(chunks):
        async for chunk in chunks:
            yield replace(chunk, usage=price.priced(chunk.usage)) if isinstance(chunk, Reply) else chunk


def _make_engine(kind: str, settings: Mapping[str, Any]) -> Engine:
    """Return an engine; its file is imported when it is first used."""
    try:
        made = Settings(**settings)
        if kind == "local":
            from .local import LocalEngine

            return LocalEngine(made)
        if kind == "scripted":
            from .scripted import ScriptedEngine

            return ScriptedEngine(made)
        from .engine import make_engine

        return make_engine(kind, made)
    except RetinueError as error:
        raise shorten_traceback(error) from error.__cause__
    except TypeError as error:
        known = Settings.__dataclass_fields__
        unknown = [f"{name}; {suggest_name(name, known)}" for name in settings if name not in known]
        raise UsageError(f"PromptModel: unknown setting {', '.join(unknown) or error}") from None


def _check_spelling(name: str) -> None:
    """Raise `UsageError` for a name of a model, at an address that is not given, that is almost one of an engine."""
    elsewhere = bool(os.environ.get("OPENAI_BASE_URL"))  # there, names may contain a colon: `llama3:8b`
    written = name.partition(":")[0] if elsewhere else name
    near = find_nearest(written, ENGINES, 0.8 if elsewhere else 0.75)
    if near and written not in ENGINES and (near[0] == written[0].lower() or not elsewhere):
        hint = "" if elsewhere else f" (openai:{name} is a model of OpenAI)"
        raise UsageError(f"no engine {written!r}; did you mean {near!r}?{hint}")


def _split_name(text: str) -> tuple[str | None, str]:
    engine, colon, name = text.partition(":")
    if engine == "mistral" and os.environ.get("OPENAI_BASE_URL") and not os.environ.get("MISTRAL_API_KEY"):
        return None, text  # a model of that name, as Ollama lists it
    if text in ENGINES:
        return text, ""
    if colon and engine in ENGINES:
        return engine, name
    return ("local" if text.endswith(".gguf") else None), text
