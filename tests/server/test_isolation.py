"""Many clients at once, each with assistants and threads of its own: nothing of one ever shows in another.

Every text, instruction, tool and piece of metadata carries a word of its own; the model keeps what it was shown for
each answer; and for each thread and assistant there is a model here of what must hold.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chaos.harness import ENDED, Client, Refused, Site, client_of, path_of, waiting
from fakes.echo_model import CALL, EchoModel, Seen, words
from fakes.served import serving

pytestmark = pytest.mark.anyio
CLIENTS = 8
FILE = """
retinue: 1
components:
  - name: echo
    type: PromptModel
    params: {{model_name_or_path: echo, engine: openai, base_url: "{url}", api_key: none, api: chat}}
agents:
  - {{name: one, params: {{model: echo, strategy: tool_calling, tools: []}}}}
  - {{name: two, params: {{model: echo, strategy: tool_calling, tools: [calculator]}}}}
"""


@dataclass
class Assistant:
    """What must hold of an assistant."""

    id: str
    instructions: str
    tool: str | None
    note: str


@dataclass
class Thread:
    """What must hold of a thread: ids and words of its messages, in their order."""

    id: str
    note: str
    messages: list[tuple[str, str]] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)  # of the client's tools, by the answers they led to
    calls: set[str] = field(default_factory=set)  # their names and arguments, of which a transcript may tell, too

    @property
    def told(self) -> list[str]:
        """What a model is told of it: what tools said stands before the answer that it led to."""
        return [word for id_, said in self.messages for word in (self.results.get(id_), said) if word]


@pytest.fixture
def echo() -> Iterator[EchoModel]:
    with EchoModel() as model:
        yield model


@pytest.mark.full
async def test_nothing_of_one_client_ever_shows_in_another(tmp_path: Path, echo: EchoModel) -> None:
    operations = 800
    with serving(tmp_path, FILE.format(url=echo.url)) as server:
        at = Site(server, echo.url, "")
        numbers = count()
        async with client_of(at) as client:
            people = [Person(client, echo, numbers, random.Random(seed)) for seed in range(CLIENTS)]
            await asyncio.gather(*(person.live(operations // CLIENTS) for person in people))
            await asyncio.gather(*(person.look_at_all() for person in people))
            listed = await everything(client, "/assistants")
        assert sum(person.done for person in people) >= operations // CLIENTS * CLIENTS
        assert sum(person.answers for person in people) >= operations // 10
        assert {one["id"] for one in listed} == {one.id for person in people for one in person.assistants}


async def everything(client: Client, path: str) -> list[dict[str, Any]]:
    """All pages of a list, oldest first."""
    found: list[dict[str, Any]] = []
    sign = "&" if "?" in path else "?"
    while True:
        after = f"&after={found[-1]['id']}" if found else ""
        page = await client.ask("GET", f"{path}{sign}order=asc&limit=7{after}")
        found += page["data"]
        if not page["has_more"]:
            return found


class Person:
    """A client, and what it knows of what it made."""

    def __init__(self, client: Client, echo: EchoModel, numbers: Iterator[int], dice: random.Random) -> None:
        self.done = self.answers = 0
        self.assistants: list[Assistant] = []
        self.threads: list[Thread] = []
        self._client = client
        self._echo = echo
        self._numbers = numbers
        self._dice = dice

    async def live(self, operations: int) -> None:
        """Do things, one after the other."""
        often = [self.make_assistant, self.make_thread, self.change_assistant, self.change_thread, self.forget]
        often += [self.say, self.look] * 3 + [self.run] * 6 + [self.chat, self.cancel]
        await self.make_assistant()
        await self.make_thread()
        while self.done < operations:
            await self._dice.choice(often)()
            self.done += 1

    def word(self, kind: str) -> str:
        """A new one, which nobody else has."""
        return f"{kind}{next(self._numbers)}q"

    async def make_assistant(self) -> None:
        """An assistant with instructions, and perhaps a tool, of its own."""
        tool = self.word("t") if self._dice.random() < 0.7 else None
        one = Assistant("", self.word("i"), tool, self.word("n"))
        body: dict[str, Any] = {"model": self._dice.choice(["one", "two"]), "instructions": f"Be {one.instructions}."}
        body |= {"metadata": {"note": one.note}, "tools": [function(tool)] if tool else []}
        one.id = (await self._client.once("POST", "/assistants", body))["id"]
        self.assistants.append(one)

    async def change_assistant(self) -> None:
        """Other instructions."""
        one = self._dice.choice(self.assistants)
        one.instructions = self.word("i")
        body = {"instructions": f"Be {one.instructions}."}
        said = await self._client.once("POST", f"/assistants/{one.id}", body)
        assert (words(said["instructions"]), said["metadata"]) == ([one.instructions], {"note": one.note})

    async def make_thread(self) -> None:
        """A thread with a message."""
        one = Thread("", self.word("n"))
        text = self.word("u")
        body = {"messages": [{"role": "user", "content": f"I say {text}"}], "metadata": {"note": one.note}}
        one.id = (await self._client.once("POST", "/threads", body))["id"]
        (first,) = await everything(self._client, f"/threads/{one.id}/messages")
        one.messages.append((first["id"], text))
        self.threads.append(one)

    async def change_thread(self) -> None:
        """Other metadata."""
        one = self._dice.choice(self.threads)
        one.note = self.word("n")
        await self._client.once("POST", f"/threads/{one.id}", {"metadata": {"note": one.note}})

    async def forget(self) -> None:
        """A thread, an assistant or a message less."""
        if len(self.threads) > 3:
            gone = self.threads.pop(self._dice.randrange(len(self.threads)))
            await self._client.once("DELETE", f"/threads/{gone.id}")
            with pytest.raises(Refused, match=f"No thread found with id '{gone.id}'"):
                await self._client.once("GET", f"/threads/{gone.id}/messages")
        if len(self.assistants) > 3:
            other = self.assistants.pop(0)
            await self._client.once("DELETE", f"/assistants/{other.id}")
        thread = self._dice.choice(self.threads)
        if len(thread.messages) > 4:
            id_, _ = thread.messages.pop(0)
            await self._client.once("DELETE", f"/threads/{thread.id}/messages/{id_}")

    async def say(self) -> None:
        """A message more."""
        one, text = self._dice.choice(self.threads), self.word("u")
        body = {"role": "user", "content": f"I say {text}"}
        one.messages.append(((await self._client.once("POST", f"/threads/{one.id}/messages", body))["id"], text))

    async def look(self) -> None:
        """Whether a thread has what it must have."""
        one = self._dice.choice(self.threads)
        there = await everything(self._client, f"/threads/{one.id}/messages")
        assert [(said["id"], *words(text_of(said))) for said in there] == one.messages
        assert (await self._client.once("GET", f"/threads/{one.id}"))["metadata"] == {"note": one.note}

    async def look_at_all(self) -> None:
        """The same of each thread."""
        threads = self.threads
        for self.threads in [[one] for one in threads]:
            await self.look()
        self.threads = threads

    async def run(self) -> None:
        """An answer, streamed or not, with a call of the client's tool on the way or not."""
        thread, who = self._dice.choice(self.threads), self._dice.choice(self.assistants)
        asked, more = self.word("u"), self.word("i")
        calls = who.tool is not None and self._dice.random() < 0.4
        content = f"{CALL} for {asked}" if calls else f"What of {asked}?"
        body: dict[str, Any] = {"assistant_id": who.id, "additional_instructions": f"Also {more}."}
        body["additional_messages"] = [{"role": "user", "content": content}]
        run = await (self.streamed if self._dice.random() < 0.4 else self.started)(thread, body)
        shown, result = [*thread.told, asked], ""
        if calls:
            assert run["status"] == "requires_action", run
            ((call, wanted),) = waiting(run).items()
            name, result = json.loads(wanted["arguments"])["word"], self.word("r")
            assert words(wanted["name"].replace("_", " ")) == [who.tool]
            self.check(name, who, more, shown, thread.calls)
            thread.calls |= {str(who.tool), name}
            shown = [*shown, result]
            run = await self._client.rests(await self._client.submit(run, {call: f"It is {result}"}))
        assert run["status"] == "completed", run
        *_, question, answer = await everything(self._client, f"/threads/{thread.id}/messages")
        assert (answer["run_id"], answer["assistant_id"]) == (run["id"], who.id)
        (name,) = words(text_of(answer))
        self.check(name, who, more, shown, thread.calls)
        thread.messages += [(question["id"], asked), (answer["id"], name)]
        thread.results[answer["id"]] = result
        self.answers += 1

    def check(self, name: str, who: Assistant, more: str, shown: list[str], maybe: Set[str]) -> None:
        """Whether the model was shown what it must have been shown for an answer, and nothing else."""
        seen = self._echo.seen[name]
        assert seen.system == {who.instructions, more}
        assert seen.tools == ({who.tool} if who.tool else set())
        assert [word for word in seen.conversation if word in shown or word not in maybe] == shown

    async def started(self, thread: Thread, body: dict[str, Any]) -> dict[str, Any]:
        """A run, once it rests."""
        return await self._client.rests(await self._client.once("POST", f"/threads/{thread.id}/runs", body))

    async def streamed(self, thread: Thread, body: dict[str, Any]) -> dict[str, Any]:
        """The same by its stream, of which every event belongs to it."""
        run: dict[str, Any] = {}
        async for event, data in self._client.stream(f"/threads/{thread.id}/runs", {**body, "stream": True}):
            run = data if event.startswith("thread.run.") and data.get("object") == "thread.run" else run
            assert data.get("thread_id", thread.id) == thread.id
            assert data.get("run_id", run.get("id")) in (run.get("id"), None)
        return run

    async def cancel(self) -> None:
        """A run that is cancelled; what it may have said stays."""
        thread, who = self._dice.choice(self.threads), self._dice.choice(self.assistants)
        asked = self.word("u")
        body = {"assistant_id": who.id, "additional_messages": [{"role": "user", "content": asked}]}
        run = await self._client.once("POST", f"/threads/{thread.id}/runs", body)
        with suppress(Refused):  # it may have ended
            run = await self._client.once("POST", f"{path_of(run)}/cancel")
        run = await self._client.rests(run)
        assert run["status"] in ENDED
        there = await everything(self._client, f"/threads/{thread.id}/messages")
        new = [(said["id"], *words(text_of(said))) for said in there[len(thread.messages) :]]
        assert new[0][1] == asked
        assert len(new) <= 2
        thread.messages += [one for one in new if len(one) == 2]

    async def chat(self) -> None:
        """A chat completion, which has no thread."""
        system, asked = self.word("i"), self.word("u")
        said = [{"role": "system", "content": f"Be {system}"}, {"role": "user", "content": asked}]
        body = {"model": self._dice.choice(["one", "two"]), "messages": said}
        (choice,) = (await self._client.once("POST", "/chat/completions", body))["choices"]
        seen = self._echo.seen[choice["message"]["content"]]
        assert seen == Seen(frozenset({system}), frozenset(), [asked])


def text_of(message: dict[str, Any]) -> str:
    """The text of a message."""
    return "".join(part["text"]["value"] for part in message["content"])


def function(name: str) -> dict[str, Any]:
    """A function of the client's."""
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    return {"type": "function", "function": {"name": f"get_{name}", "description": "Gets.", "parameters": schema}}
