"""Web search independent of the engine: a provider builds requests and parses responses."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypedDict
from urllib.parse import urlsplit

from ..core.values import Document
from ..errors import ToolError, UsageError
from ..net.service_client import Service, ServiceRequest, check_query

SHOWN = 3  # snippets that a model is shown if there is no answer
_REFUSED = (401, 403)


class Searched(TypedDict):
    """The outputs of a search: `results`, the text for a model, and `documents`."""

    results: str
    documents: list[Document]


@dataclass(frozen=True, slots=True)
class Question:
    """A query: `count` results in total, of which this is page number `page`, from 1.

    `domains`: where to search, as `docs.python.org` or `github.com/psf`; empty for everywhere. `language` and `country`
    are the engine's own codes, usually of two letters.
    """

    query: str = ""
    count: int = 10
    domains: tuple[str, ...] = ()
    language: str = ""
    country: str = ""
    page: int = 1

    @property
    def scoped(self) -> str:
        """The query in Google's syntax, restricted to the domains."""
        sites = " OR ".join(f"site:{domain}" for domain in self.domains)
        return f"{sites} {self.query}" if sites else self.query


@dataclass(frozen=True, slots=True)
class Found:
    """An engine's results: its own `answer`, if any; `pages`, best first; and other texts `besides`, shown last."""

    answer: Document | None = None
    pages: tuple[Document, ...] = ()
    besides: tuple[Document, ...] = ()


class Provider(Protocol):
    """A search engine: a class with these attributes and methods, in a file of its own.

    A result page has `page_size` results, and there are at most `last_page` pages. `settings`: which of `domains`,
    `language` and `country` it supports. Without `key_variables` it needs no key. `{language}` in `base_url` is
    replaced by the language.
    """

    name: str
    base_url: str
    key_variables: tuple[str, ...]
    settings: tuple[str, ...]
    page_size: int
    last_page: int

    def request(self, asked: Question, key: str) -> ServiceRequest:
        """Build the request."""
        ...

    def problem(self, body: Mapping[str, Any]) -> str:
        """Return the engine's error message; empty if there is none, or if there are just no results."""
        ...

    def read(self, body: Mapping[str, Any]) -> Found:
        """Parse the results."""
        ...


class Search:
    """Queries a provider. `asked` has the settings shared by all queries.

    The key is `api_key`, or else one of the provider's environment variables. Raises `UsageError` if there is no key,
    or if the provider does not support a setting.
    """

    def __init__(
        self, provider: Provider, api_key: str | None, asked: Question, base_url: str | None = None,
        seconds: float = 20.0,
    ) -> None:  # fmt: skip
        key = _find_key(provider, api_key)
        if asked.count < 1:
            raise UsageError(f"{provider.name}: top_k must be at least 1, not {asked.count}")
        for setting in ("domains", "language", "country"):
            if getattr(asked, setting) and setting not in provider.settings:
                raise UsageError(f"{provider.name} does not support {setting}; {_describe_settings(provider)}")
        self._asked = asked
        self._provider = provider
        address = base_url or provider.base_url.replace("{language}", asked.language or "en")
        self._service = Service(provider.name, address, key, seconds)

    async def find(self, query: str) -> Searched:
        """Return the first documents, the engine's own answer before the pages, and the text for a model.

        Fetches as many result pages as needed. Raises `UsageError` if the key is rejected, otherwise `ToolError`.
        """
        query = check_query(query)
        found = await self._collect(replace(self._asked, query=query))
        documents = [*([found.answer] if found.answer else []), *_with_positions(found.pages)][: self._asked.count]
        return {"results": _format_results(found, documents), "documents": documents}

    async def _collect(self, asked: Question) -> Found:
        wanted = -(-asked.count // self._provider.page_size)
        all_found, besides = Found(), tuple[Document, ...]()
        for number in range(1, min(wanted, self._provider.last_page) + 1):
            request = self._provider.request(replace(asked, page=number), self._service.key)
            found = self._read(*(await self._service.answer(request))[:2])
            new = tuple(
                _drop_known_links(all_found.pages, (one for one in found.pages if is_within(one, asked.domains)))
            )
            if number == 1:
                answer = found.answer if found.answer and is_within(found.answer, asked.domains) else None
                all_found, besides = Found(answer), tuple(one for one in found.besides if is_within(one, asked.domains))
            all_found = replace(all_found, pages=(*all_found.pages, *new))
            if not found.pages or len(all_found.pages) >= asked.count:
                break
        return replace(all_found, pages=(*all_found.pages, *_drop_known_links(all_found.pages, besides)))

    def _read(self, status: int, body: Any) -> Found:
        name = self._provider.name
        said = " ".join(self._provider.problem(body).split())[:300] if isinstance(body, Mapping) else ""
        if status in _REFUSED:
            raise UsageError(f"{name} refused the {'key' if self._service.key else 'request'}: {said or status}")
        if said or not 200 <= status < 300:
            raise ToolError(f"{name} answered {status}: {said or '(no message)'}")
        if not isinstance(body, Mapping):
            raise ToolError(f"{name} answered with something that is not the JSON of a search")
        return self._provider.read(body)


def is_within(document: Document, domains: Collection[str]) -> bool:
    """Return whether the document's link, if any, leads into one of `domains`, which may include a path."""
    link = document.meta.get("link")
    if not domains or not link:
        return True
    try:
        parts = urlsplit(link)
        host = (parts.hostname or "").lower()
    except ValueError:
        return False
    for domain in domains:
        wanted, _, path = domain.lower().rstrip("/").partition("/")
        below = f"/{path}/" if path else "/"
        if (host == wanted or host.endswith(f".{wanted}")) and f"{parts.path}/".lower().startswith(below):
            return True
    return False


def read_text(value: Any) -> str:
    """Return a text or number on one line, and an empty string for other values, since engines send all types."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value).split())


def read_page(item: Any, snippet: str, position: int, **names: str) -> Document | None:
    """Return the document for one result; its content is the value under `snippet`, or else its title.

    `names` maps further fields of `meta` to the engine's names.
    """
    if not isinstance(item, Mapping):
        return None
    meta = {name: found for name, key in names.items() if (found := read_text(item.get(key)))}
    content = read_text(item.get(snippet)) or meta.get("title", "")
    return Document(content, meta.get("link", ""), {**meta, "position": position}) if content else None


def read_pages(items: Any, snippet: str, **names: str) -> tuple[Document, ...]:
    """Return the documents for a list of results, in order (see `read_page`)."""
    found = (read_page(item, snippet, 0, **names) for item in (items if isinstance(items, list) else ()))
    return tuple(document for document in found if document is not None)


def answer(box: Any, keys: Iterable[str], **names: str) -> Document | None:
    """Return the document for an engine's own answer: the first non-empty value under `keys`."""
    if not isinstance(box, Mapping):
        return None
    return next((read_page(box, key, 0, **names) for key in keys if read_text(box.get(key))), None)


def _find_key(provider: Provider, api_key: str | None) -> str:
    given = (api_key, *(os.environ.get(variable) for variable in provider.key_variables))
    key = next((one.strip() for one in given if one and one.strip()), "")
    if provider.key_variables and not key:
        raise UsageError(f"{provider.name} needs a key: pass api_key=… or set {' or '.join(provider.key_variables)}")
    return key if provider.key_variables else ""


def _describe_settings(provider: Provider) -> str:
    return f"it supports {', '.join(provider.settings)}" if provider.settings else "it takes only a query"


def _drop_known_links(known: Iterable[Document], more: Iterable[Document]) -> list[Document]:
    """Return those of `more` with a new link; engines repeat results across pages."""
    links = {document.id for document in known}
    kept: list[Document] = []
    for document in more:
        if not document.id or document.id not in links:
            links.add(document.id)
            kept.append(document)
    return kept


def _with_positions(documents: Iterable[Document]) -> list[Document]:
    return [replace(one, meta={**one.meta, "position": at}) for at, one in enumerate(documents, 1)]


def _format_results(found: Found, documents: list[Document]) -> str:
    if found.answer is not None:
        return found.answer.content
    lines = [_format_line(document) for document in documents[:SHOWN]]
    return "\n".join(lines) or "Nothing was found. Try other words."


def _format_line(document: Document) -> str:
    title = document.meta.get("title", "")
    return f"{title}: {document.content}" if title and title != document.content else document.content
