"""`SerpAPIComponent`: Haystack's name for Google through serpapi.com."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import UsageError
from .search_engine import SearchEngine
from .web_search import Searched


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
