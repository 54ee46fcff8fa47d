"""`GitHubAPI`: issues and code on GitHub, or on a GitHub Enterprise server; `IssueLink`: links to new issues."""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Literal, Self, TypedDict
from urllib.parse import parse_qsl, quote, urlencode

from .._internal.message_text import suggest_name
from ..core.component import Component, QueryComponent
from ..core.tools.tool import Tool
from ..core.values import Document
from ..errors import ToolError, UsageError
from ..net.retry import parse_retry_after
from ..net.service_client import Service, ServiceAnswer, ServiceRequest, ask_service, check_query, read_error_text
from .web_search import Searched, read_text

OPERATIONS = ("search_issues", "search_code", "read_issue", "list_issues")
MAX_COMMENTS = 10  # of an issue
MAX_BODY = 4_000  # characters of an issue that is read,
MAX_COMMENT = 1_000  # and of each comment
_EXCERPT = 200  # characters of an issue in a list
MAX_LINK = 8_000  # characters; GitHub answers 414 to longer ones
MAX_TITLE = 256
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_PAGES = 5
_SECONDARY = 60.0  # default wait in seconds for a secondary rate limit
_ISSUE = re.compile(r"(?:https?://[^/\s]+/)?(?:([^/\s]+/[^/\s#]+?))?(?:#|/issues/|/pull/)?(\d{1,18})(?:[#?]\S*)?")
_SCOPED = re.compile(r"(?:^|\s)(?:repo|org|user):\S")
_KIND = re.compile(r"(?:^|\s)(?:is|type):(?:issue|pr|pull-request)\b")
_NEXT = re.compile(r'<([^>]*)>[^,]*\brel="next"')


class GitHubAPI(QueryComponent[Searched]):
    """Searches and reads a repository's issues, and searches its code.

    The outputs are `documents` (with `title`, `link`, and for issues `number`, `state`, `labels` in `meta`) and
    `results`, the text for a model. Rate limits are waited for within `seconds`. Raises `UsageError` for invalid
    settings.

    Args:
        operation: What it does as a component or tool: `search_issues`, `search_code` (requires a token),
            `read_issue` or `list_issues`. `tools()` returns all of them.
        token: By default that in `GITHUB_TOKEN`; otherwise optional.
        repository: Default repository, as `owner/name`.
        top_k: Maximum number of results.
        seconds: Time limit of each request.
        base_url: For GitHub Enterprise `https://HOST/api/v3`.
    """

    def __init__(
        self,
        token: str | None = None,
        repository: str | None = None,
        operation: str = "search_issues",
        *,
        top_k: int = 5,
        base_url: str = "https://api.github.com",
        seconds: float = 20.0,
    ) -> None:
        if operation not in OPERATIONS:
            raise UsageError(f"GitHubAPI: no operation {operation!r}; {suggest_name(operation, OPERATIONS)}")
        if top_k < 1:
            raise UsageError(f"GitHubAPI: top_k must be at least 1, not {top_k}")
        if repository is not None and not REPOSITORY.fullmatch(repository):
            raise UsageError(f"GitHubAPI: want repository as owner/name, not {repository!r}")
        self.name = "GitHubAPI"
        self.top_k = top_k
        self._repository = repository or ""
        key = (token or os.environ.get("GITHUB_TOKEN") or "").strip()
        self._service = Service("GitHub", base_url, key, seconds)
        self.tool_function: Callable[..., Awaitable[Searched]] = getattr(self, operation)

    def tools(self) -> list[Tool]:
        """Return each operation as a tool with its own name."""
        return [Tool(name, self._with_operation(name), effects="read") for name in OPERATIONS]

    def _with_operation(self, operation: str) -> Self:
        other = copy(self)
        other.given = self.given | {"operation": operation}
        other.tool_function = getattr(other, operation)
        return other

    async def run_async(self, query: str) -> Searched:
        """Its operation: the words to search for, the number of the issue, or the label.

        Raises `ToolError` if GitHub cannot be asked or says no, `UsageError` if it refuses the token.
        """
        return await self.tool_function(query)

    # ── the operations, as a model reads of them ─────────────────────────────────────────────────

    async def search_issues(
        self, query: str, state: Literal["open", "closed", "any"] = "any", repository: str = ""
    ) -> Searched:
        """Search the issues of a project on GitHub: bugs, questions, and what is planned.

        Args:
            query: a few words that would be in the issue
            state: open or closed issues only
            repository: as owner/name, if it is not the usual one
        """
        wanted = [self._limit_query(query, repository), "" if _KIND.search(query) else "is:issue"]
        wanted.append("" if state == "any" else f"state:{state}")
        return list_results(map(read_issue_json, await self._search("issues", " ".join(filter(None, wanted)))))

    async def search_code(self, query: str, repository: str = "") -> Searched:
        """Search the code of a project on GitHub.

        Args:
            query: names or words that stand in the code
            repository: as owner/name, if it is not the usual one
        """
        return list_results(map(read_code_json, await self._search("code", self._limit_query(query, repository))))

    async def read_issue(self, issue: int | str, repository: str = "") -> Searched:
        """Read an issue on GitHub with its comments.

        Args:
            issue: its number, or owner/name#number, or its link
            repository: as owner/name, if it is not the usual one
        """
        match = _ISSUE.fullmatch(str(issue).strip())
        if match is None:
            raise ToolError(f"want the number of an issue, or owner/name#number, not {str(issue)[:80]!r}")
        path = f"/repos/{self._choose_repository(match[1] or repository)}/issues/{int(match[2])}"
        found = read_issue_json((await self._ask(path)).body)
        if found is None:
            raise ToolError("GitHub answered with something that is not the JSON of an issue")
        return issue_results(
            found, map(read_comment_json, await self._list_items(f"{path}/comments", {}, MAX_COMMENTS))
        )

    async def list_issues(self, label: str = "", repository: str = "") -> Searched:
        """List the open issues of a project on GitHub, the latest first.

        Args:
            label: only issues with this label; several with commas between them
            repository: as owner/name, if it is not the usual one
        """
        params = {"state": "open"} | ({"labels": label.strip()} if label.strip() else {})
        return list_results(
            map(
                read_issue_json,
                await self._list_items(f"/repos/{self._choose_repository(repository)}/issues", params, self.top_k),
            )
        )

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def _choose_repository(self, repository: str) -> str:
        """Return the requested or default repository. Raises `ToolError`."""
        named = repository.strip() or self._repository
        if not named:
            raise ToolError("say which repository, as owner/name")
        if not REPOSITORY.fullmatch(named):
            raise ToolError(f"want the repository as owner/name, not {named[:80]!r}")
        return named

    def _limit_query(self, query: str, repository: str) -> str:
        query = check_query(query)
        if _SCOPED.search(query) or not (repository.strip() or self._repository):
            return query
        return f"{query} repo:{self._choose_repository(repository)}"

    async def _search(self, what: str, query: str) -> list[Any]:
        return await self._list_items(f"/search/{what}", {"q": query}, self.top_k)

    async def _list_items(self, path: str, params: Mapping[str, str], most: int) -> list[Any]:
        """Return the first `most` items from as many pages as needed, without pull requests, which GitHub lists as
        issues.

        Only the parameters of a link to the next page are used, so it cannot lead elsewhere.
        """
        kept: list[Any] = []
        params = {**params, "per_page": str(min(100, max(most, 30)))}
        for _ in range(_PAGES):
            answer = await self._ask(path, params)
            items = answer.body.get("items") if isinstance(answer.body, Mapping) else answer.body
            if not isinstance(items, list):
                raise ToolError("GitHub answered with something that is not the JSON of a list")
            found = path.startswith("/search/")  # search results have been filtered by the query
            kept += [item for item in items if isinstance(item, Mapping) and (found or "pull_request" not in item)]
            following = _NEXT.search(answer.headers.get("link", ""))
            if len(kept) >= most or following is None:
                break
            params = {**params, **dict(parse_qsl(following[1].partition("?")[2]))}
        return kept[:most]

    async def _ask(self, path: str, params: Mapping[str, str] | None = None) -> ServiceAnswer:
        headers = {"Accept": "application/vnd.github.text-match+json", "X-GitHub-Api-Version": "2022-11-28"}
        if self._service.key:
            headers["Authorization"] = f"Bearer {self._service.key}"
        return await ask_service(self._service, ServiceRequest(path, params or {}, headers), _find_rate_limit_pause)


def _find_rate_limit_pause(answer: ServiceAnswer) -> float | None:
    """Return the seconds to wait for GitHub's rate limits, or `None`.

    Uses `Retry-After`, or else the reset of the primary limit. A secondary limit without headers waits a minute.
    """
    if answer.status not in (403, 429, 503):
        return None
    if (seconds := parse_retry_after(answer.headers.get("retry-after"))) is not None:
        return seconds
    reset = answer.headers.get("x-ratelimit-reset", "")
    if answer.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        return max(0.0, float(reset[:12]) - time.time())
    return _SECONDARY if "secondary rate limit" in read_error_text(answer.body) else None


def read_issue_json(item: Any) -> Document | None:
    """Convert an issue; `None` if it has no number or title."""
    if not isinstance(item, Mapping) or not isinstance(item.get("number"), int) or not read_text(item.get("title")):
        return None
    names = [read_text(one.get("name") if isinstance(one, Mapping) else one) for one in _as_list(item.get("labels"))]
    comments = item.get("comments")
    meta = {
        "title": read_text(item["title"]),
        "link": read_text(item.get("html_url")),
        "number": item["number"],
        "state": read_text(item.get("state")),
        "labels": [name for name in names if name],
        "comments": comments if isinstance(comments, int) else 0,
    }
    return Document(_clean_text(item.get("body")) or meta["title"], meta["link"], meta)


def read_comment_json(item: Any) -> Document | None:
    """Convert a comment; `None` if it is empty."""
    if not isinstance(item, Mapping) or not _clean_text(item.get("body")):
        return None
    author = read_text(_as_mapping(item.get("user")).get("login")) or "somebody"
    link = read_text(item.get("html_url"))
    return Document(_clean_text(item["body"]), link, {"link": link, "author": author})


def read_code_json(item: Any) -> Document | None:
    """Convert a file with matches; its content is the matching places."""
    if not isinstance(item, Mapping) or not read_text(item.get("path")):
        return None
    fragments = [_clean_text(_as_mapping(one).get("fragment")) for one in _as_list(item.get("text_matches"))]
    meta = {
        "title": read_text(item["path"]),
        "link": read_text(item.get("html_url")),
        "repository": read_text(_as_mapping(item.get("repository")).get("full_name")),
    }
    return Document("\n…\n".join(filter(None, fragments)) or meta["title"], meta["link"], meta)


def list_results(found: Iterable[Document | None]) -> Searched:
    """Return search results, one line each."""
    documents = [document for document in found if document is not None]
    lines = [_format_line(document, _EXCERPT) for document in documents]
    return {"results": "\n".join(lines) or "Nothing was found. Try other words.", "documents": documents}


def issue_results(issue: Document, found: Iterable[Document | None]) -> Searched:
    """Return an issue with its comments, truncated if too long."""
    comments = [comment for comment in found if comment is not None]
    said = [f"{comment.meta['author']}: {_shorten(comment.content, MAX_COMMENT)}" for comment in comments]
    more = issue.meta["comments"] - len(said)
    shown = [
        _format_line(issue, 0),
        _shorten(issue.content, MAX_BODY),
        *said,
        *([f"({more} more comments)"] if more > 0 else []),
    ]
    return {"results": "\n\n".join(shown), "documents": [issue, *comments]}


def _format_line(document: Document, excerpt: int) -> str:
    meta = document.meta
    labels = f" ({', '.join(meta['labels'])})" if meta.get("labels") else ""
    head = f"#{meta['number']} [{meta['state']}] {meta['title']}{labels}" if "number" in meta else str(meta["title"])
    said = (
        _shorten(" ".join(document.content.split()), excerpt) if excerpt and document.content != meta["title"] else ""
    )
    return f"{head} {meta['link']}" + (f": {said}" if said else "")


def _clean_text(value: Any) -> str:
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else ""


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _shorten(said: str, most: int) -> str:
    return said if len(said) <= most else f"{said[:most].rstrip()} …"


class Linked(TypedDict):
    """The outputs of `IssueLink`."""

    results: str


def issue_link(
    repository: str,
    title: str,
    body: str = "",
    labels: Sequence[str] = (),
    template: str = "",
    base_url: str = "https://github.com",
) -> str:
    """Return the link to a new issue of `repository` (`owner/name`) with title, body, labels and template filled in.

    A body that is too long for GitHub is truncated. Raises `UsageError` if the link is too long without it.
    """
    if not REPOSITORY.fullmatch(repository):
        raise UsageError(f"want the repository as owner/name, not {repository!r}")
    fixed = {"title": " ".join(title.split())[:MAX_TITLE], "labels": ",".join(labels), "template": template}

    def link(length: int) -> str:
        text = body if length == len(body) else f"{body[:length].rstrip()} …"
        given = {key: value for key, value in {**fixed, "body": text}.items() if value}
        query = urlencode(given, quote_via=quote, safe="", errors="replace")
        return f"{base_url.rstrip('/')}/{repository}/issues/new?{query}"

    if len(link(len(body))) <= MAX_LINK:
        return link(len(body))
    length = bisect_right(range(len(body)), MAX_LINK, key=lambda length: len(link(length))) - 1
    if length < 0:
        raise UsageError(f"labels and template make the link longer than {MAX_LINK:,} characters")
    return link(length)


class IssueLink(Component):
    """Creates the link to a new issue of `repository`, with these labels and this template (see `issue_link`).

    A model supplies title and body; in a pipeline, the query is the title. Nothing is submitted: that is a person's
    decision. Raises `UsageError` for an invalid repository.
    """

    effects = "read"

    def __init__(
        self,
        repository: str,
        labels: Sequence[str] = (),
        template: str = "",
        *,
        base_url: str = "https://github.com",
    ) -> None:
        self.name = "IssueLink"
        labels = [labels] if isinstance(labels, str) else list(labels)
        self._link = partial(issue_link, repository, labels=labels, template=template, base_url=base_url)
        self._link("title")

    def tool_function(self, title: str, body: str = "") -> Linked:
        """Make a link with which the user can open a new issue on GitHub, with everything filled in. Give the user
        the link in your answer; nothing is sent.

        Args:
            title: the problem in one line
            body: what was asked, what was found out, what is missing; in Markdown
        """
        if not title.strip():
            raise ToolError("the title is empty; say the problem in one line")
        return {"results": self._link(title, body)}

    def run(self, query: str) -> Linked:
        """The link to an issue with the title `query`. Raises `ToolError` if it is empty."""
        return self.tool_function(query)
