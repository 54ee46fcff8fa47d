"""One model at one server, for all wire formats: sends requests, reads the streamed replies, retries failures."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, get_args
from urllib.parse import urlsplit

from .._internal.foreign_text import make_json_well_formed
from .._internal.message_text import suggest_name
from ..core.prices import Price, is_counted_in_dollars
from ..core.prompt import Ask, Prompt, PromptCache
from ..core.protocols import Chunks, list_kinds
from ..core.values import Capabilities, Kind
from ..errors import ModelNotFound, ModelRefused, ModelUnavailable, UsageError, WindowExceeded
from ..net.error_mapping import find_output_limit, find_refused_field, is_about_parameter
from ..net.http_client import HttpClient
from ..net.retry import Attempts, Retries, TimeLimits
from . import known_servers
from .facts import UNKNOWN, find_facts, find_vendor_at
from .known_servers import Adapted
from .reply_reader import ReplyReader, may_think
from .schemas import DIALECTS, HOLD_TO_PATTERN, build_constraint_parameters, find_refused_tools
from .settings import Api, Settings
from .vendor import Vendor
from .vendors import find_vendor
from .vendors.gemini import sign_others
from .wire_format import Encoded, Terms, Wire, drop_parameters, merge_parameters, place_result_files

_COMPLETION_MODELS = ("text-", "davinci", "babbage", "curie", "ada", "gpt-3.5-turbo-instruct")
_MOST_PAUSES = 16  # of one turn, in which the vendor runs tools of its own
_WISHES: Mapping[str, tuple[str, ...]] = {  # what a request's options may say, and what servers call that
    **{name: (name,) for name in ("temperature", "top_p", "seed")},
    "reasoning_effort": ("reasoning_effort", "reasoning.effort"),
    "verbosity": ("verbosity", "text.verbosity"),
}
_OF_A_VALUE = re.compile(r"\bvalues?\b", re.IGNORECASE)  # another one is taken, and the refusal says which
_WANTS_RESPONSES = re.compile(  # https://github.com/openai/openai-openapi/issues/541; Azure: langchain-azure/issues/228
    r"v1/responses\b|\bresponses api\b|chat ?completions? operation does not work", re.IGNORECASE
)
_WANTS_CHAT = re.compile(  # Azure, whose deployments may lack Responses: https://github.com/Aider-AI/aider/issues/4029
    r"v1/chat/completions|responses operation does not work|responses api is (?:enabled only|not)"
    r"|operation is unsupported|\bdeployment\b",
    re.IGNORECASE,
)
_BAD_STATE = re.compile(  # https://github.com/openai/codex/issues/8145
    r"encrypted content .*could not be (?:verified|decrypted)|items are not persisted|provided without its required"
    r"|parameter:? 'input\[\d+\]"  # of an item: https://github.com/pydantic/pydantic-ai/issues/3653
    r"|expected `thinking`|invalid `signature`(?!.*prefix_mismatch)|latest assistant message cannot be modified",
    re.IGNORECASE,
)
_WHILE_IT_THINKS = TimeLimits(idle=600.0, total=3600.0)  # in silence: https://github.com/lobehub/lobehub/issues/9603
_REFUSED_IT = ", which refused it"
_LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
logger = logging.getLogger(__name__)


class HttpEngine:
    """One model at one server. The server's kind, and the parameters that it rejects, are detected once."""

    def __init__(self, settings: Settings, vendor: Vendor) -> None:
        self._settings = settings
        self._vendor = vendor
        self._client = HttpClient(
            _add_root(settings.base_url or "", vendor.root),
            settings.api_key,
            settings.limits or (_WHILE_IT_THINKS if vendor.suits(settings.model) else TimeLimits()),
            vendor.headers,
            resends=settings.retries != Retries(tries=1),
            sign=settings.sign,
        )
        self._dialect = settings.dialect or vendor.dialect
        self._model = settings.model
        self._window: int | None = None
        self._host = find_vendor_at(self._client.base_url)  # whose own address it is
        self._facts = UNKNOWN
        self._in_words: frozenset[str] = frozenset()  # tools whose schemas were rejected
        self._recalled = False
        self._warned = False
        # Whether replies begin within a thought; `None` if nothing suggests it.
        separates = vendor.dialect in ("openai", "anthropic", "cohere", "gemini")
        self._thinks = False if separates else may_think(settings.model) or None
        self._encoded: dict[Any, PromptCache[Encoded]] = {}  # by the wire's path, and how turns are sent
        self._sees = None if settings.sees is None else list_kinds(settings.sees)
        self._heads: list[tuple[Any, tuple[bytes, Mapping[str, str]]]] = []
        if self._dialect and self._dialect not in DIALECTS:
            raise UsageError(f"no dialect {self._dialect!r}; {suggest_name(self._dialect, DIALECTS)}")

    @property
    def name(self) -> str:
        return self._model or self._client.shown

    @property
    def price(self) -> Price | None:
        """The model's published prices, unless the user counts in another currency."""
        return find_facts(self._host, self._model).price if self._host and is_counted_in_dollars() else None

    async def abilities(self, *, native: bool = False) -> Capabilities:
        await self._learn_server()
        if self._vendor.dialect == "ollama":
            self._window = self._settings.options.get("num_ctx", self._settings.context)
        elif self._window is None:
            told = await known_servers.find_window(self._client, self._dialect, self._model)
            self._window = told or self._facts.window
        constrains = self._dialect in HOLD_TO_PATTERN and not (self._dialect == "tgi" and self._only_completes)
        problem = ""
        if native and self._only_completes:
            problem = "its completions know no tool calls"
        elif native:
            title = f"{self.name} at {self._client.redacted(self._client.base_url)}"
            problem = await known_servers.find_call_problem(self._identity, title, self.reply)
        return Capabilities(constrains, native and not problem, self._window, problem)

    async def sees(self) -> frozenset[Kind]:
        if self._sees is None:
            await self._learn_server()
            found = await known_servers.find_kinds(self._client, self._dialect, self._model, self._vendor)
            facts, takes = self._facts, bool(self._host) and find_vendor(self._host).takes_files
            listed = {"image": facts.sees, "pdf": takes and facts.reads_pdf, "audio": takes and facts.hears}
            found |= {kind for kind in get_args(Kind) if listed[kind]}
            self._sees = frozenset() if self._only_completes else found
        return self._sees

    async def reply(self, request: Ask) -> Chunks:
        attempts, has_switched = Attempts(self._settings.retries), False
        while True:
            adapted: Adapted | None = None
            try:
                await self._learn_server()
                adapted = known_servers.find_adapted(self._identity) | Adapted(in_words=self._in_words)
                async with aclosing(self._stream_once(request, self._choose_wire(request, adapted), adapted)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except ModelRefused as refused:
                if _BAD_STATE.search(str(refused)) and (plain := _disown_state(request)):
                    logger.warning("%s is sent its turns without their state: %s", self.name, refused)
                    request = plain
                    continue
                found = adapted and self._find_rejected(request, adapted, refused, may_switch=not has_switched)
                if found is None and isinstance(refused, ModelNotFound):
                    raise await known_servers.suggest_model(self._client, self._vendor, self._model, refused) from None
                if found is None:
                    raise
                logger.info("%s is adapted to (%s): %s", self.name, found, refused)
                has_switched = has_switched or found.api is not None
                self._in_words |= found.in_words
                known_servers.learn(self._identity, replace(found, in_words=frozenset()))
                known_servers.remember(self._identity)
            except ModelUnavailable as error:
                retry = attempts.plan_retry(error)
                yield retry
                await asyncio.sleep(retry.seconds)

    async def _stream_once(self, request: Ask, wire: Wire, adapted: Adapted) -> Chunks:
        """Send the request once and stream the reply."""
        thinks = False if request.constraint and self._dialect in HOLD_TO_PATTERN else self._thinks
        in_json, redacted = self._needs_json(request, wire, adapted), self._client.redacted
        receiver = ReplyReader(wire, request.stop, in_json=in_json, redacted=redacted, thinks=thinks)
        encoded = sent = await self._encode_prompt(request.prompt, wire, adapted)
        path = wire.find_path(self._model, self._settings.stream)
        for pauses in range(_MOST_PAUSES + 1):
            head, headers = self._build_head(request, wire, sent, adapted)
            async with aclosing(self._client.exchange(path, wire.write_body(head, sent), headers)) as reads:
                async for bodies in reads:
                    for chunk in receiver.take(bodies):
                        yield chunk
                    if receiver.is_enough:
                        break
            turn = receiver.find_paused_turn(self._name_origin(wire)) if pauses < _MOST_PAUSES else None
            if turn is None:
                break
            sent = wire.encode_messages(encoded, [turn])
        for chunk in receiver.flush_rest():
            yield chunk
        reply = receiver.reply(self._name_origin(wire), encoded.unsent)
        if receiver.found_open or (reply.text and request.constraint is None):
            self._thinks = receiver.found_open
        yield reply

    async def close(self) -> None:
        await self._client.close()

    async def _learn_server(self) -> None:
        """Detect the server's kind and the model, unless they are known, and recall what else is known of them."""
        if not (self._dialect and self._model):
            if self._vendor.dialect == "ollama":
                dialect, model = "", await known_servers.find_ollama_model(self._client)
            else:
                dialect, model = await known_servers.detect_server(self._client)
            self._dialect = self._dialect or dialect or self._vendor.detected or "none"
            self._model = self._model or model
            if not self._model:
                raise ModelRefused(f"{self._client.shown} lists no models; name the one to use")
        if not self._recalled:
            self._recalled = True
            known_servers.recall(self._identity)
            if self._host:
                self._facts = await asyncio.to_thread(find_facts, self._host, self._model)

    @property
    def _identity(self) -> tuple[str, ...]:
        return self._client.base_url, self._client.key_digest, self._vendor.chat.path, self._model

    # ── the request ──────────────────────────────────────────────────────────────────────────────

    @property
    def _only_completes(self) -> bool:
        """Whether the model or its user requires completions instead of chat."""
        if self._settings.api:
            return self._settings.api == "completions"
        return self._dialect in ("openai", "none") and self._model.startswith(_COMPLETION_MODELS)

    def _choose_wire(self, request: Ask, adapted: Adapted) -> Wire:
        """Return the wire for `request`: completions suit llama.cpp's grammars, chat suits conversations and native
        calls, and Responses suits models that reason.
        """
        vendor = self._vendor
        api = self._settings.api or adapted.api or ("responses" if vendor.suits(self._model) else "")
        if vendor.responses is not None and api == "responses":
            return vendor.responses
        if vendor.completions is not None and self._only_completes:
            return vendor.completions
        if vendor.completions is None or self._settings.api or self._dialect != "llamacpp":
            return vendor.chat
        messages = request.prompt.messages
        talks = request.chat or request.tools or any(one.calls or one.role == "tool" or one.files for one in messages)
        return vendor.chat if talks else vendor.completions

    def _build_constraint(self, request: Ask, wire: Wire, adapted: Adapted) -> Mapping[str, Any]:
        """Return the constraint's parameters, if the server takes all of them; none beside tools, as engines reject
        both together."""
        if request.constraint is None or request.tools:
            return {}
        vendor = self._vendor
        api: Api = "completions" if wire is vendor.completions else "responses" if wire is vendor.responses else "chat"
        constraint = build_constraint_parameters(self._dialect, request.constraint, api)
        return constraint if drop_parameters(constraint, adapted.without) == constraint else {}

    def _needs_json(self, request: Ask, wire: Wire, adapted: Adapted) -> bool:
        """Return whether the reply should be JSON."""
        return self._dialect not in HOLD_TO_PATTERN and bool(self._build_constraint(request, wire, adapted))

    def _build_parameters(
        self, request: Ask, wire: Wire, adapted: Adapted, unfit: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        settings, most, options = self._settings, request.max_tokens, dict(request.options)
        without = adapted.without - self._find_set_wishes(request, wire)
        if most is None and self._dialect == "llamacpp" and self._window:
            most = self._window // 2  # a small model may never stop
        if adapted.most is not None:
            most = min(most or adapted.most, adapted.most)
        terms = Terms(
            self._model,
            most,
            () if self._needs_json(request, wire, adapted) else request.stop,
            settings.temperature,
            settings.stream,
            settings.context,
            () if wire is self._vendor.completions else request.tools,
            request.tool_choice,
            adapted.in_words,
            str(options.pop("reasoning_effort", settings.effort) or ""),
            str(options.pop("verbosity", settings.verbosity) or ""),
            settings.thinking_tokens,
            without | unfit,
            str(options.pop("reasoning_summary", settings.summary) or ""),
            self._facts.most_output,
        )
        parameters = merge_parameters(wire.build_parameters(terms), self._build_constraint(request, wire, adapted))
        parameters = wire.add_options(parameters, settings.options)
        if options:
            parameters = wire.add_sampling(parameters, options)
        if "max_tokens" in without and "max_tokens" in parameters:
            parameters["max_completion_tokens"] = parameters["max_tokens"]
        kept = drop_parameters(parameters, without)
        if not self._warned and kept != parameters:
            wishes = {name for names in _WISHES.values() for name in names} & without
            if left_out := [name for name in sorted(wishes) if drop_parameters(parameters, {name}) != parameters]:
                self._warned = True
                logger.warning("%s refuses %s, which is not sent", self.name, ", ".join(left_out))
        return kept

    def _find_set_wishes(self, request: Ask, wire: Wire) -> frozenset[str]:
        """Return the parameters of `_WISHES` that the settings ask for and `request` does not.

        They are sent even if the server was found to refuse them for another request, so that its refusal is the error.
        """
        options, given = self._settings.options, {
            "reasoning_effort": self._settings.effort, "verbosity": self._settings.verbosity
        }  # fmt: skip
        wishes = [
            names for wish, names in _WISHES.items()
            if wish not in request.options and (given.get(wish) or drop_parameters(options, names) != dict(options))
        ]  # fmt: skip
        return frozenset[str]().union(*wishes) - wire.dispensable

    def _build_head(
        self, request: Ask, wire: Wire, encoded: Encoded, adapted: Adapted
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return the request as JSON but for the conversation, which comes last because it is append-only, and headers.

        The last two heads are cached, as most requests differ in nothing else, except those for a last answer: to make
        one takes a millisecond with five tools.
        """
        differs = wire.path, adapted, request.stop, request.max_tokens, request.tool_choice, request.tools
        key = *differs, request.constraint, request.options, encoded.unfit
        head = next((head for known, head in self._heads if known == key), None)
        if head is None:
            parameters = make_json_well_formed(self._build_parameters(request, wire, adapted, encoded.unfit))
            headers = wire.take_headers(parameters)
            head = json.dumps(parameters)[:-1].encode(), headers
            self._heads = [(key, head), *self._heads[:1]]
        return head

    def _name_origin(self, wire: Wire) -> str:
        """Return the origin of this vendor's state; a gateway to many vendors has the model's maker in its name."""
        maker, server = self._model.rpartition("/")[0], urlsplit(self._client.base_url).netloc.rpartition("@")[2]
        return " ".join(filter(None, (wire.name, server, maker)))

    async def _encode_prompt(self, prompt: Prompt, wire: Wire, adapted: Adapted) -> Encoded:
        """Return the conversation as the wire sends it, without another vendor's state and without files of tools that
        the model cannot read. What of it was encoded before is cached."""
        turns, origin = (adapted.turns_without, adapted.turns_want), self._name_origin(wire)
        known = self._encoded.setdefault((wire.path, *turns), PromptCache())
        kept, new = known.extend(prompt)
        foreign = {one.state.origin for one in new if one.state and one.state.origin != origin}
        if foreign:
            new = tuple([replace(one, state=None) if one.state and one.state.origin in foreign else one for one in new])
        if any(one.tool and one.files for one in new):
            new = place_result_files(new, await self.sees(), wire)
        encoded = wire.encode_messages(kept or Encoded(turns_without=turns[0], turns_want=turns[1]), new)
        if unsent := next(iter(foreign), kept.unsent if kept else ""):
            encoded = replace(encoded, unsent=unsent)
        if kept is not None or any(message.role == "assistant" for message in new):
            known.keep(prompt, encoded)  # not of a run that waits for its first reply: there may be thousands
        return encoded

    def _find_rejected(
        self, request: Ask, sent_as: Adapted, refused: ModelRefused, *, may_switch: bool
    ) -> Adapted | None:
        """Return what the server rejects, or `None` if that is nothing that can be sent otherwise.

        What the user asked for in the settings is left out only if the wire calls it dispensable. `sent_as`: what was
        known when the request was made, as another one may have learned the same meanwhile. `may_switch`: to the other
        of chat and Responses. Some models have only one of them, and with tools, some think only in Responses.
        """
        wire, said = self._choose_wire(request, sent_as), str(refused)
        if may_switch and self._vendor.responses is not None and not self._settings.api:
            is_missing = refused.status in (404, 405) and not isinstance(refused, ModelNotFound)
            if wire is not self._vendor.responses and _WANTS_RESPONSES.search(said):
                return Adapted(api="responses")
            if wire is self._vendor.responses and (is_missing or _WANTS_CHAT.search(said)):
                return Adapted(api="chat")
        if isinstance(refused, ModelNotFound):
            return None
        sent = self._build_parameters(request, wire, sent_as)
        lengths = {**sent, **(sent.get("generationConfig") or {})}  # where Gemini has it
        most, limit = next((lengths[name] for name in _LENGTHS if name in lengths), None), find_output_limit(refused)
        if most is not None and limit is not None and 0 < limit < most:
            return Adapted(most=limit)
        if isinstance(refused, WindowExceeded):
            return None
        if field := find_refused_field(refused, wire.turn_fields):
            names, is_missed = frozenset((field[0],)), field[1]
            if names <= (sent_as.turns_want if is_missed else sent_as.turns_without):
                return None
            return Adapted(turns_want=names) if is_missed else Adapted(turns_without=names)
        return self._find_rejected_parameter(request, wire, sent, sent_as, refused)

    def _find_rejected_parameter(
        self, request: Ask, wire: Wire, sent: dict[str, Any], sent_as: Adapted, refused: ModelRefused
    ) -> Adapted | None:
        wishes = [] if _OF_A_VALUE.search(str(refused)) else list(_WISHES.keys() & request.options.keys())
        named = [
            name
            for name in wire.dispensable.union(*(_WISHES[wish] for wish in wishes))
            if is_about_parameter(refused, name) and drop_parameters(sent, {name}) != sent
        ]
        name = wire.find_refused(refused, sent) or max(named, key=lambda name: (name.count("."), name), default="")
        if name and name not in sent_as.without:
            return Adapted(without=frozenset((name,)))
        tools = find_refused_tools(refused, request.tools) - sent_as.in_words
        return Adapted(in_words=tools) if tools else None


def _disown_state(request: Ask) -> Ask | None:
    """Return the request with all state as that of another vendor, which is not sent; `None` if there is none."""
    messages = list(request.prompt.messages)
    if all(one.state is None or one.state.origin.endswith(_REFUSED_IT) for one in messages):
        return None
    for at, one in enumerate(messages):
        if one.state:
            messages[at] = replace(one, state=replace(one.state, origin=one.state.origin + _REFUSED_IT))
    return replace(request, prompt=Prompt(messages[0]).add(*messages[1:]))


def _add_root(base_url: str, root: str) -> str:
    """Return the address with its `/v1` or similar, which users often omit."""
    address, mark, query = base_url.partition("?")
    address = address.rstrip("/")
    if "://" not in address:
        address = f"http://{address}"
    path = "" if address.split("://", 1)[1].count("/") else root
    return f"{address}{path}{mark}{query}"


def make_engine(name: str, settings: Settings) -> HttpEngine:
    """Return the engine of the vendor called `name`. Raises `UsageError` if its key or the model's name is missing."""
    vendor = find_vendor(name)
    if vendor.connect is not None:
        settings, vendor = vendor.connect(settings)
    base_url = settings.base_url or os.environ.get(vendor.environment)
    key = settings.api_key or next((os.environ[name] for name in vendor.keys if os.environ.get(name)), None)
    if vendor.keys and not base_url:
        if not key:
            keys = " or ".join(vendor.keys)
            raise UsageError(f"{vendor.title} needs a key: set {keys} (or name another server: base_url)")
        if not settings.model:
            raise UsageError(f"{vendor.title} has many models; name one: {name}:MODEL")
    if settings.model.removeprefix("models/").startswith("gemini"):
        vendor = sign_others(vendor)
    if settings.api == "completions" and vendor.completions is None:
        raise UsageError(f"{vendor.title} has no completions; omit `api`")
    if settings.api == "responses" and vendor.responses is None:
        raise UsageError(f"{vendor.title} has no Responses API; omit `api`")
    if base_url and vendor.detected is not None and urlsplit(vendor.url).netloc not in base_url:
        vendor = replace(vendor, dialect="", suits=lambda model: False)
    return HttpEngine(replace(settings, base_url=base_url or vendor.url, api_key=key), vendor)
