"""Search engines, one per file: how to query each and how to parse its results."""

from collections.abc import Callable, Mapping
from typing import Literal

from ..web_search import Provider
from .searchapi import SearchAPI
from .serpapi import SerpAPI
from .serper import Serper
from .tavily import Tavily
from .wikipedia_search import WikipediaSearch

ProviderName = Literal["serper", "searchapi", "serpapi", "tavily", "wikipedia"]
PROVIDERS: Mapping[str, Callable[[], Provider]] = {
    "serper": Serper,
    "searchapi": SearchAPI,
    "serpapi": SerpAPI,
    "tavily": Tavily,
    "wikipedia": WikipediaSearch,
}
