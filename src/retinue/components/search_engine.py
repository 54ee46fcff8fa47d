"""`SearchEngine`: web search with a choice of engines; `SerpAPIComponent`: Haystack's name for one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

from .._internal.message_text import suggest_name
from ..core.component import QueryComponent
from ..core.tools.tool import ExampleCall, ToolExample
from ..core.values import Document
from ..errors import UsageError
from .search_providers import PROVIDERS, ProviderName
from .web_search import Provider, Question, Search, Searched

_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?:/[A-Za-z0-9._~/-]*)?")
_CODE = re.compile(r"[A-Za-z][A-Za-z -]{0,40}")
_EXAMPLE = ToolExample(
    "After how many minutes is Lumo glue dry?",
    (
        ExampleCall(
            "I need to find out how long Lumo glue takes to dry.",
            "Lumo glue drying time",
            "Lumo wood glue: dry after 62 minutes, waterproof after a day.",
        ),
    ),
    "62",
)
_ANSWER_WEIGHT = 5  # of an engine's own answer, relative to the best page


class SearchEngine(QueryComponent[Searched]):
    """Searches the web.

    The output `documents` has at most `top_k` items, from as many result pages as needed: first the engine's own
    answer, if any, then the web pages. Contents are snippets; `meta` has `title`, `link` and `position` (from 1; 0 for
    an answer). Each `score` falls with the position, and all scores sum to 1. The output `results` is the text for a
    model: the engine's answer, or else the first three snippets, one per line after the page's title.

    Raises `UsageError` without a key, or if the provider does not support a setting.

    Args:
        provider: `serper`, `searchapi` or `serpapi` (Google), `tavily`, `wikipedia`, or a custom `Provider`.
        api_key: By default from the provider's environment variable (`SERPERDEV_API_KEY` or `SERPER_API_KEY`,
            `SEARCHAPI_API_KEY`, `SERPAPI_API_KEY`, `TAVILY_API_KEY`). Wikipedia needs none.
        top_k: Maximum number of documents.
        allowed_domains: Search only there (`docs.python.org`, `github.com/psf`); other results are dropped.
        language: The provider's own code, such as `de`.
        country: The provider's own code, such as `us`.
        base_url: Address of another server.
        seconds: Time limit of a request.
    """

    tool_examples = (_EXAMPLE,)

    def __init__(  # noqa: PLR0913 -- what a search is scoped to stands side by side
        self,
        provider: Annotated[str | Provider, ProviderName] = "serper",
        api_key: str | None = None,
        top_k: int = 10,
        allowed_domains: Iterable[str] = (),
        language: str | None = None,
        country: str | None = None,
        *,
        name: str = "SearchEngine",
        base_url: str | None = None,
        seconds: float = 20.0,
    ) -> None:
        if isinstance(provider, str) and provider not in PROVIDERS:
            raise UsageError(f"{name}: there is no provider {provider!r}; {suggest_name(provider, PROVIDERS)}")
        domains = (allowed_domains,) if isinstance(allowed_domains, str) else tuple(allowed_domains)
        self.given["allowed_domains"] = domains
        for domain in domains:
            if not _DOMAIN.fullmatch(domain):
                raise UsageError(
                    f"{name}: {domain!r} is not a domain; want docs.python.org, github.com/psf or the like"
                )
        for code in filter(None, (language, country)):
            if not _CODE.fullmatch(code):
                raise UsageError(f"{name}: {code!r} is not the code of a language or country; want one such as 'de'")
        self.name = name
        engine = PROVIDERS[provider]() if isinstance(provider, str) else provider
        asked = Question("", top_k, domains, language or "", country or "")
        self._search = Search(engine, api_key, asked, base_url, seconds)

    async def run_async(self, query: str) -> Searched:
        """Search the web.

        Raises `ToolError` if the engine cannot be asked or cannot answer, `UsageError` if it refuses the key.
        """
        found = await self._search.find(query)
        return {"results": found["results"], "documents": _with_scores(found["documents"])}


def _with_scores(documents: list[Document]) -> list[Document]:
    """Assign scores by rank, as Haystack v1's `WebSearch` does: n, n-1, …, 1, five times the weight for an answer, all
    divided by their sum.
    """
    weights = [
        (len(documents) - at) * (_ANSWER_WEIGHT if document.meta["position"] == 0 else 1)
        for at, document in enumerate(documents)
    ]
    return [replace(one, score=weight / sum(weights)) for one, weight in zip(documents, weights, strict=True)]


class SerpAPIComponent(SearchEngine):
    """Searches Google through serpapi.com: Haystack's name for `SearchEngine("serpapi")`.

    The key is `api_key`, or else `SERPAPI_API_KEY` in the environment. Outputs are those of `SearchEngine`, without
    scores. `base_url` is the address of another server; `seconds` is the time limit of a request. `inputs` only accepts
    the root, as in Haystack's Agent proposal, PR 3925; other inputs are set when the component is added to a pipeline.

    Raises `UsageError` without a key.
    """

    def __init__(
        self,
        api_key: str | None = None,
        top_k: int = 10,
        *,
        name: str = "SerpAPIComponent",
        inputs: Iterable[str] = ("Query",),
        base_url: str | None = None,
        seconds: float = 20.0,
    ) -> None:
        if list(inputs) != ["Query"]:
            raise UsageError(f"{name}: set its inputs where it is added: add_node(search, {name!r}, inputs=…)")
        super().__init__("serpapi", api_key, top_k, name=name, base_url=base_url, seconds=seconds)

    async def run_async(self, query: str) -> Searched:
        """Search the web with Google.

        Raises `ToolError` if it cannot be asked or cannot answer, `UsageError` if the key is refused.
        """
        return await self._search.find(query)
