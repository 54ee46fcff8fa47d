"""Searching the web, whatever engine does it: a provider says how to ask it and how to read what it answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

from ..errors import ToolError, UsageError
from ..schema import Document
from .fetching import Request, Service

MAX_QUERY = 2_000  # characters
SHOWN = 3  # snippets that a model is shown where there is no answer
_REFUSED = (401, 403)


class Searched(TypedDict):
    """What a search gives: `results`, the text for a model, and `documents`."""

    results: str
    documents: list[Document]


@dataclass(frozen=True, slots=True)
class Found:
    """What an engine answered: the `answer` it gives itself, if any, and the pages it found, best first."""

    answer: Document | None = None
    pages: tuple[Document, ...] = ()


class Provider(Protocol):
    """One search engine: a class with these, in a file of its own."""

    name: str
    base_url: str
    key_variable: str

    def request(self, query: str, key: str) -> Request:
        """How to ask for `query`."""
        ...

    def problem(self, body: Mapping[str, Any]) -> str:
        """What the engine says went wrong; empty if nothing did, or if it merely found nothing."""
        ...

    def read(self, body: Mapping[str, Any]) -> Found:
        """What it found."""
        ...


class Search:
    """Asks a provider. The key is `api_key`, else in the provider's environment variable.

    Raises `UsageError` if there is none.
    """

    def __init__(
        self, provider: Provider, api_key: str | None, top_k: int, base_url: str | None = None, seconds: float = 20.0
    ) -> None:
        key = (api_key or os.environ.get(provider.key_variable) or "").strip()
        if not key:
            raise UsageError(f"{provider.name} needs a key: give api_key=… or set {provider.key_variable}")
        if top_k < 1:
            raise UsageError(f"{provider.name}: top_k must be at least 1, not {top_k}")
        self.top_k = top_k
        self._provider = provider
        self._service = Service(provider.name, base_url or provider.base_url, key, seconds)

    async def find(self, query: str) -> Searched:
        """The first `top_k` documents, the engine's own answer before the pages, and the text for a model.

        Raises `UsageError` if the key is refused, else `ToolError`.
        """
        query = " ".join(query.split())
        if not query:
            raise ToolError("the query is empty; say what to search for")
        if len(query) > MAX_QUERY:
            raise ToolError(f"the query is longer than {MAX_QUERY:,} characters; use a few words")
        found = self._read(*await self._service.ask(self._provider.request(query, self._service.key)))
        documents = [*([found.answer] if found.answer else []), *found.pages][: self.top_k]
        return {"results": _shown(found, documents), "documents": documents}

    def _read(self, status: int, body: Any) -> Found:
        name = self._provider.name
        said = " ".join(self._provider.problem(body).split())[:300] if isinstance(body, Mapping) else ""
        if status in _REFUSED:
            raise UsageError(f"{name} refused the key: {said or status}")
        if said or not 200 <= status < 300:
            raise ToolError(f"{name} answered {status}: {said or '(no message)'}")
        if not isinstance(body, Mapping):
            raise ToolError(f"{name} answered with something that is not the JSON of a search")
        return self._provider.read(body)


def text(value: Any) -> str:
    """`value` in one line if it is a text or a number, else nothing: what engines send is of any kind."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value).split())


def page(item: Any, snippet: str, position: int, **names: str) -> Document | None:
    """The document for one result: its content is what stands under `snippet`, else its title.

    `names`: what further fields are to be called in `meta`, and what the engine calls them.
    """
    if not isinstance(item, Mapping):
        return None
    meta = {name: found for name, key in names.items() if (found := text(item.get(key)))}
    content = text(item.get(snippet)) or meta.get("title", "")
    return Document(content, meta.get("link", ""), {**meta, "position": position}) if content else None


def pages(items: Any, snippet: str, **names: str) -> tuple[Document, ...]:
    """The documents for a list of results, numbered in its order (see `page`)."""
    kept: list[Document] = []
    for item in items if isinstance(items, list) else ():
        if (document := page(item, snippet, len(kept) + 1, **names)) is not None:
            kept.append(document)
    return tuple(kept)


def _shown(found: Found, documents: list[Document]) -> str:
    if found.answer is not None:
        return found.answer.content
    lines = [_line(document) for document in documents[:SHOWN]]
    return "\n".join(lines) or "Nothing was found. Try other words."


def _line(document: Document) -> str:
    title = document.meta.get("title", "")
    return f"{title}: {document.content}" if title and title != document.content else document.content
