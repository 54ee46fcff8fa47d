"""`RemoteAgent`: an agent, or any model, behind an OpenAI-compatible API."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from .._internal.redaction import register_named_secrets
from ..agent import Agent
from ..core.budgets import Budget
from ..core.context_templates import describe_bad_template, fill_headers
from ..core.loop.effects import Human
from ..core.prices import Price, find_price
from ..core.prompt import Ask, Prompt, write_plain
from ..core.protocols import Chunks, Flow, Model, Task, ask, consult
from ..core.run_context import current_run
from ..core.tools.tool import Effects
from ..core.values import AgentAction, AgentFinish, Capabilities, Decision, Message
from ..errors import ModelRefused, ModelUnavailable, UsageError
from ..models import PromptModel
from ..net.error_mapping import call_failure
from ..net.http_client import HttpClient, Unsigned
from ..net.retry import Attempts, Retries, TimeLimits
from ..strategies.parsing.final_answer import mark_truncated

_RETRIES = Retries()
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")


class RemoteAgent(Agent):
    """An agent of another Retinue, or any model behind an OpenAI-compatible API. As a tool it is a member like any
    agent.

    The tokens that it reports count as its own. A Retinue is told the path of callers, so that circles are refused, and
    a key by which a repeated request gets the same run. If that run waits for a person, a person here is asked.

    Args:
        url: The server's address; without a path, `/v1` is added.
        model: The agent's name there; by default the first that the server lists.
        api_key: Sent as a bearer token. No variable of the environment is read.
        headers: Sent with each question; they may have templates, such as `${user.secret:NAME}`.
        name: Its name here.
        stream: Whether the answer is streamed.
        seconds: The most that a question may take.
        effects: Whether a question may be sent again if it may have arrived (`Tool.effects`). `once`: only to a
            Retinue, which knows the key. For a mere model, say `read`.
        human: Asked what the other agent asks; otherwise the caller's, or the run waits.
        price: What the tokens cost that the other server reports, as a `PromptModel`'s.

    Raises `UsageError` for an invalid address or key.
    """

    def __init__(  # noqa: PLR0913 -- an agent's address and its limits
        self,
        url: str,
        model: str = "",
        api_key: str | None = None,
        *,
        name: str = "remote_agent",
        stream: bool = True,
        seconds: float = 600.0,
        effects: Effects = "once",
        human: Human | None = None,
        price: Mapping[str, float] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"a remote agent's url is the address of its server, not {url[:200]!r}")
        check_headers(headers or {})
        limits = TimeLimits(min(10.0, seconds), seconds, seconds)
        remote = PromptModel(
            model,
            engine="vllm",  # of all OpenAI-compatible engines, one that takes no key from the environment
            base_url=url,
            api_key=api_key,
            api="chat",
            dialect="openai",
            stream=stream,
            options={"temperature": None},  # as the other agent has it
            limits=limits,
            retries=Retries(tries=1),  # RemoteModel has its own
            sign=partial(_sign_request, headers or {}),
            price=price,
        )
        budget = Budget(steps=None, seconds=seconds, stale_steps=None)
        client = HttpClient(f"{url.rstrip('/')}{'' if urlsplit(url).path.strip('/') else '/v1'}", api_key, limits)
        model_there = RemoteModel(remote, url, client, effects)
        super().__init__(model_there, strategy=RemoteChat(name), budget=budget, name=name, human=human)


@dataclass(frozen=True)
class RemoteModel:
    """The other server as a model. What it refuses is told with its reason, which is about the question; a model's own
    words go to the operator alone. `effects` are those of its answers; `client` asks the server what it is."""

    inner: Model
    url: str
    client: HttpClient
    effects: Effects

    @property
    def name(self) -> str:
        """The agent's name there."""
        return self.inner.name

    @property
    def price(self) -> Price | None:
        """The prices of the agent there, if they are known."""
        return find_price(self.inner)

    async def abilities(self, *, native: bool = False) -> Capabilities:
        """Return what the server supports."""
        return await self.inner.abilities(native=native)

    async def reply(self, request: Ask) -> Chunks:
        """Stream the reply. Raises `ToolError` if the request is refused, and `ModelError`. A request that may have
        been executed is sent again only where that does no harm."""
        attempts, arrived, repeatable = Attempts(_RETRIES), False, self.effects != "once"
        failure: ModelUnavailable | None = None
        while True:
            if not arrived or repeatable:
                try:
                    async with aclosing(self.inner.reply(request)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                    return
                except ModelRefused as error:
                    raise call_failure(hide_address(str(error), self.url), sent=True) from None
                except ModelUnavailable as error:
                    failure, arrived = error, arrived or error.code != "model_unreachable"
            assert failure is not None
            if arrived and not repeatable:
                known = await self._check_idempotency()
                if known is False:
                    raise failure
                repeatable = bool(known)
            retry = attempts.plan_retry(failure)
            yield retry
            await asyncio.sleep(retry.seconds)

    async def _check_idempotency(self) -> bool | None:
        """Whether a request that is repeated under its key gets the same run; `None` if that is not known yet."""
        try:
            models = await self.client.get("/models") if current_run().run else {}
            return bool(models["data"][0]["owned_by"] == "retinue")
        except (ModelRefused, LookupError, TypeError):
            return False
        except ModelUnavailable:  # it may be starting again
            return None


@dataclass(frozen=True)
class RemoteChat:
    """The strategy of a `RemoteAgent`: the conversation as it is, and whatever the other agent asks of a person."""

    agent: str
    name: str = "remote_chat"

    def __call__(self, task: Task) -> Flow:
        """Ask once, and answer its questions."""
        first, *rest = [*task.history, Message("user", task.question)]
        prompt, news = Prompt(first).add(*rest), task.question
        while True:
            reply = yield from ask(Ask(prompt, news, write_plain, answer=str.strip, chat=True))
            if not reply.calls:
                return mark_truncated(AgentFinish({"output": reply.text.strip()}, reply.text), reply)
            prompt = prompt.add(Message("assistant", reply.text, calls=reply.calls, state=reply.state))
            for call in reply.calls:
                question = f"{self.agent} requires input: {_read_question(call)}"
                decision = yield from consult(AgentAction(self.agent, call.tool_input), question)
                news = write_decision(decision)
                prompt = prompt.add(Message("tool", news, call_id=call.id, tool=call.tool))


def _read_question(call: AgentAction) -> str:
    """Return what a call asks. A Retinue's `human_input` names the tool that waits for approval."""
    given = call.tool_input if isinstance(call.tool_input, dict) else {"input": call.tool_input}
    tool, arguments = given.get("tool"), given.get("arguments")
    if not isinstance(tool, str) or not isinstance(arguments, dict):
        tool, arguments = call.tool, given
    if set(arguments) == {"question"}:
        return str(arguments["question"])
    return f"May {tool} be called with {json.dumps(arguments, ensure_ascii=False)}?"


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `UsageError` for headers that cannot be sent to an agent."""
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise UsageError(f"headers: {name[:80]!r}: want a name, and printable ASCII on one line")
        if problem := describe_bad_template(value):
            raise UsageError(f"headers: {name}: {problem}")
    register_named_secrets(headers)


async def _sign_request(headers: Mapping[str, str], request: Unsigned) -> Mapping[str, str]:
    """Return the headers of a request: those configured, who calls, and a key that the same request of the same run has
    again."""
    here = current_run()
    key = f"{here.run[-100:]}/{hashlib.sha256(request.body).hexdigest()[:32]}"
    return {**await fill_headers(headers), **here.headers(), **({"Idempotency-Key": key} if here.run else {})}


def write_decision(decision: Decision) -> str:
    """Return a decision as a message: an answer as it is, and otherwise the word or the JSON that a Retinue expects."""
    if decision.kind == "respond":
        return decision.message
    if decision.kind == "edit" and isinstance(decision.tool_input, dict):
        arguments = decision.tool_input.get("arguments", decision.tool_input)
        return json.dumps({"decision": "edit", "arguments": arguments}, ensure_ascii=False)
    if decision.kind == "edit" and decision.tool_input is not None:
        return str(decision.tool_input)
    if decision.kind == "reject" and decision.message:
        return json.dumps({"decision": "reject", "message": decision.message}, ensure_ascii=False)
    return decision.kind


def hide_address(text: str, url: str) -> str:
    """Return a message about the server at `url` without its address: models and clients may read it."""
    address = urlsplit(url)
    hidden = re.sub(rf"{re.escape(f'{address.scheme}://{address.netloc}')}[^\s:]*", "the other server", text)
    return hidden.replace(address.netloc, "the other server") if address.netloc else hidden
