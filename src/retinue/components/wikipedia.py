"""`Wikipedia`: `search` and `lookup` as in the environment of the ReAct paper (Yao et al. 2023, arXiv:2210.03629)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..core.run_context import current_run
from ..core.tools.signature import InvalidInput
from ..core.tools.tool import ExampleCall, ToolExample
from ..core.values import Document
from ..errors import ToolError, UsageError
from ..net.service_client import AGENT, Service, ServiceRequest, check_query, read_error_text
from .services import Searched, ServiceOperations, as_list, as_mapping, fetch_object, first_of, read_text

SENTENCES = 5  # of a page
SIMILAR = 5  # similar titles if there is no page
NO_MORE = "No more results."
_PAGES = 8  # cached, so that a lookup need not fetch its page again
_HEADING = re.compile(r"=+ .* =+")
_RESULT = re.compile(r"\(Result (\d+) / \d+\) ")
_AMBIGUOUS = "may refer to:"
_EXAMPLE = ToolExample(
    "How many pages has the Sundby Codex?",
    (
        ExampleCall(
            "I need to find the page on the Sundby Codex.",
            "Sundby Codex",
            "The Sundby Codex is a cookbook written by hand. It has 62 pages, of which two are empty.",
        ),
    ),
    "62",
)


class Wikipedia(ServiceOperations):
    """Finds a page of Wikipedia, or of another MediaWiki, and sentences on it. Raises `UsageError` for invalid
    settings.

    It is stateless: `lookup` derives the current page, and how many results it has returned, from the calls of the run
    so far. So one agent may serve many runs at once, and a resumed run continues at the right sentence. If `lookup` is
    made into a tool by hand or in a file, it needs `polls`, since repeating the call means the next result.

    Args:
        operation: What it does as a component or tool: `search` or `lookup`. `tools()` returns both.
        language: Selects the Wikipedia.
        base_url: Location of `api.php` of another wiki.
        contact: Your address or page, which Wikimedia requires from frequent users.
        seconds: Time limit of each request.
    """

    operations = {"search": "search", "lookup": "_find_next_sentence"}
    polling = ("lookup",)

    def __init__(
        self,
        language: str = "en",
        operation: str = "search",
        *,
        base_url: str | None = None,
        contact: str = "",
        seconds: float = 20.0,
    ) -> None:
        self.name = "Wikipedia"
        self.choose_operation(operation)
        self._pages: dict[str, Document | None] = {}
        if not re.fullmatch(r"[a-z-]{2,20}", language):
            raise UsageError(f"Wikipedia: want a language code from its addresses, such as en or de, not {language!r}")
        if not contact.isascii() or not contact.isprintable():
            raise UsageError("Wikipedia: want contact as an address or a link, in one line")
        self._service = Service("Wikipedia", base_url or f"https://{language}.wikipedia.org/w", "", seconds)
        self._agent = f"{AGENT} ({contact})" if contact else AGENT

    @property
    def tool_examples(self) -> tuple[ToolExample, ...]:
        """An example of a search, and none of a look-up."""
        return (_EXAMPLE,) if self.operation == "search" else ()

    async def search(self, entity: str) -> Searched:
        """Search Wikipedia for a person, place, work or thing: the first sentences of its page, or titles like it.

        Args:
            entity: its name, and nothing else
        """
        entity = check_query(entity, "entity")
        page = await self._find_page(entity)
        if page is not None and page.meta["ambiguous"]:
            page, entity = None, f"[{entity}]"
        if page is None:
            similar = {"list": "search", "srsearch": entity, "srlimit": str(SIMILAR), "srprop": "", "srinfo": ""}
            found = as_list((await self._send_query(similar)).get("search"))
            titles = [title for one in found if (title := read_text(as_mapping(one).get("title")))]
            return {"results": f"Could not find {entity}. Similar: {titles[:SIMILAR]}.", "documents": []}
        return {"results": " ".join(_split_sentences(page.content)[:SENTENCES]), "documents": [page]}

    async def lookup(self, keyword: str, page: str, given: int = 0) -> Searched:
        """Return the sentence with `keyword` on `page` that follows `given` others, and all matches as documents.
        Raises `ToolError` if Wikipedia cannot be asked."""
        keyword = check_query(keyword, "keyword")
        found = await self._find_page(check_query(page, "page"))
        sentences = [] if found is None else _split_sentences(found.content)
        matching = [sentence for sentence in sentences if keyword.lower() in sentence.lower()]
        here = f"(Result {given + 1} / {len(matching)}) {matching[given]}" if given < len(matching) else NO_MORE
        meta = {} if found is None else found.meta
        return {"results": here, "documents": [Document(sentence, meta=meta) for sentence in matching]}

    async def _find_next_sentence(self, keyword: str) -> Searched:
        """Find the next sentence with a keyword on the page that was searched for last, as Ctrl+F does.

        Args:
            keyword: a word or a few, as they stand on the page
        """
        page, given = self._read_progress(keyword)
        return await self.lookup(keyword, page, given) if page else {"results": NO_MORE, "documents": []}

    def _read_progress(self, keyword: str) -> tuple[str, int]:
        """Return the page found last in this run, and how many results for `keyword` were returned since.

        Another keyword in between restarts the count.
        """
        page, last, given = "", "", 0
        missing: set[str] = set()
        call = current_run().call
        for tool, action, seen in () if call is None else call.earlier:
            wiki = tool.something
            if not isinstance(wiki, Wikipedia) or wiki._service.base_url != self._service.base_url:
                continue
            try:
                (word,) = tool.signature.arguments(action.tool_input).values()
            except InvalidInput:
                continue
            if wiki.operation == "search" and seen.outcome == "result" and seen.text.startswith("Could not find "):
                missing.add(word)
            elif wiki.operation == "search" and seen.outcome in ("result", "repeated") and word not in missing:
                page, last, given = word, "", 0
            elif wiki.operation == "lookup" and seen.outcome == "result":
                number = _RESULT.match(seen.text)
                last, given = word, int(number[1]) if number else given if word == last else 0
        return page, given if keyword == last else 0

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    async def _find_page(self, title: str) -> Document | None:
        """Return the page that Wikipedia's "Go" leads to: an exact title up to case, or its redirect target."""
        if title not in self._pages:
            params = {"generator": "search", "gsrsearch": title, "gsrwhat": "nearmatch", "gsrlimit": "1"}
            params |= {"prop": "extracts|pageprops|info", "ppprop": "disambiguation", "inprop": "url"}
            found = await self._send_query(params | {"explaintext": "1", "redirects": "1"})
            while len(self._pages) >= _PAGES:
                self._pages.pop(next(iter(self._pages)))
            self._pages[title] = _read_document(as_mapping(first_of(found.get("pages"))))
        return self._pages.get(title)

    async def _send_query(self, params: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the `query` part of the Action API's response; empty if nothing was found."""
        params = {"action": "query", "format": "json", "formatversion": "2", **params}
        request = ServiceRequest("/api.php", params, {"User-Agent": self._agent})
        body = await fetch_object(self._service, request, "a query")
        if "error" in body:
            raise ToolError(f"Wikipedia answered: {read_error_text(body['error'])}")
        query = body.get("query", {})
        if not isinstance(query, Mapping):
            raise ToolError("Wikipedia answered with something that is not the JSON of a query")
        return query


def _read_document(page: Mapping[str, Any]) -> Document | None:
    text, link = page.get("extract"), read_text(page.get("fullurl"))
    if not isinstance(text, str):
        return None
    ambiguous = "disambiguation" in as_mapping(page.get("pageprops")) or _AMBIGUOUS in text[:500]
    return Document(text.strip(), link, {"title": read_text(page.get("title")), "link": link, "ambiguous": ambiguous})


def _split_sentences(page: str) -> list[str]:
    """Split a page into sentences as the paper does: paragraphs at line breaks, sentences at ". "; without headings."""
    paragraphs = (line.strip() for line in page.splitlines() if not _HEADING.fullmatch(line.strip()))
    pieces = (piece.strip() for paragraph in paragraphs for piece in paragraph.split(". "))
    return [piece if piece.endswith(".") else f"{piece}." for piece in pieces if piece]
