"""`GitHubAPI`: issues and code on GitHub, or on a GitHub Enterprise server; `IssueLink`: links to new issues."""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, urlencode

from ..core.component import Component
from ..core.values import Document
from ..errors import ToolError, UsageError
from ..net.retry import parse_retry_after
from ..net.service_client import Service, ServiceAnswer, ServiceRequest, ask_service, check_query, read_error_text
from .services import (
    NOTHING_FOUND,
    ResultText,
    Searched,
    ServiceOperations,
    as_list,
    as_mapping,
    check_positive,
    read_text,
)

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


class GitHubAPI(ServiceOperations):
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

    operations = {name: name for name in ("search_issues", "search_code", "read_issue", "list_issues")}

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
        self.name = "GitHubAPI"
        self.choose_operation(operation)
        check_positive("GitHubAPI", top_k=top_k)
        if repository is not None and not REPOSITORY.fullmatch(repository):
            raise UsageError(f"GitHubAPI: want repository as owner/name, not {repository!r}")
        self.top_k = top_k
        self._repository = repository or ""
        key = (token or os.environ.get("GITHUB_TOKEN") or "").strip()
        self._service = Service("GitHub", base_url, key, seconds)

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
        params = {"q": " ".join(filter(None, wanted))}
        return _format_list(await self._list_items("/search/issues", params, self.top_k, _read_issue))

    async def search_code(self, query: str, repository: str = "") -> Searched:
        """Search the code of a project on GitHub.

        Args:
            query: names or words that stand in the code
            repository: as owner/name, if it is not the usual one
        """
        params = {"q": self._limit_query(query, repository)}
        return _format_list(await self._list_items("/search/code", params, self.top_k, _read_code))

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
        found = _read_issue((await self._ask(path)).body)
        if found is None:
            raise ToolError("GitHub answered with something that is not the JSON of an issue")
        comments = await self._list_items(f"{path}/comments", {}, MAX_COMMENTS, _read_comment)
        shown = [_format_line(found, 0), _shorten(found.content, MAX_BODY)]
        shown += [f"{comment.meta['author']}: {_shorten(comment.content, MAX_COMMENT)}" for comment in comments]
        if (more := found.meta["comments"] - len(comments)) > 0:
            shown.append(f"({more} more comments)")
        return {"results": "\n\n".join(shown), "documents": [found, *comments]}

    async def list_issues(self, label: str = "", repository: str = "") -> Searched:
        """List the open issues of a project on GitHub, the latest first.

        Args:
            label: only issues with this label; several with commas between them
            repository: as owner/name, if it is not the usual one
        """
        params = {"state": "open"} | ({"labels": label.strip()} if label.strip() else {})
        path = f"/repos/{self._choose_repository(repository)}/issues"
        return _format_list(await self._list_items(path, params, self.top_k, _read_issue))

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

    async def _list_items(
        self, path: str, params: Mapping[str, str], most: int, read: Callable[[Any], Document | None]
    ) -> list[Document]:
        """Return the first `most` items from as many pages as needed, without pull requests, which GitHub lists as
        issues, and without those that `read` cannot read.

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
        return [document for item in kept[:most] if (document := read(item)) is not None]

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


def _read_issue(item: Any) -> Document | None:
    """Convert an issue; `None` if it has no number or title."""
    item = as_mapping(item)
    title, link = read_text(item.get("title")), read_text(item.get("html_url"))
    if not isinstance(item.get("number"), int) or not title:
        return None
    names = [read_text(one.get("name") if isinstance(one, Mapping) else one) for one in as_list(item.get("labels"))]
    comments = item.get("comments")
    meta = {
        "title": title,
        "link": link,
        "number": item["number"],
        "state": read_text(item.get("state")),
        "labels": [name for name in names if name],
        "comments": comments if isinstance(comments, int) else 0,
    }
    return Document(_clean_text(item.get("body")) or title, link, meta)


def _read_comment(item: Any) -> Document | None:
    """Convert a comment; `None` if it is empty."""
    text, link = _clean_text(item.get("body")), read_text(item.get("html_url"))
    author = read_text(as_mapping(item.get("user")).get("login")) or "somebody"
    return Document(text, link, {"link": link, "author": author}) if text else None


def _read_code(item: Any) -> Document | None:
    """Convert a file with matches; its content is the matching places."""
    title, link = read_text(item.get("path")), read_text(item.get("html_url"))
    if not title:
        return None
    fragments = [_clean_text(as_mapping(one).get("fragment")) for one in as_list(item.get("text_matches"))]
    repository = read_text(as_mapping(item.get("repository")).get("full_name"))
    meta = {"title": title, "link": link, "repository": repository}
    return Document("\n…\n".join(filter(None, fragments)) or title, link, meta)


def _format_list(documents: list[Document]) -> Searched:
    """Return search results, one line each."""
    lines = [_format_line(document, _EXCERPT) for document in documents]
    return {"results": "\n".join(lines) or NOTHING_FOUND, "documents": documents}


def _format_line(document: Document, excerpt: int) -> str:
    meta = document.meta
    labels = f" ({', '.join(meta['labels'])})" if meta.get("labels") else ""
    head = f"#{meta['number']} [{meta['state']}] {meta['title']}{labels}" if "number" in meta else str(meta["title"])
    said = " ".join(document.content.split()) if excerpt and document.content != meta["title"] else ""
    return f"{head} {meta['link']}" + (f": {_shorten(said, excerpt)}" if said else "")


def _clean_text(value: Any) -> str:
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else ""


def _shorten(said: str, most: int) -> str:
    return said if len(said) <= most else f"{said[:most].rstrip()} …"


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

    if len(whole := link(len(body))) <= MAX_LINK:
        return whole
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

    def tool_function(self, title: str, body: str = "") -> ResultText:
        """Make a link with which the user can open a new issue on GitHub, with everything filled in. Give the user
        the link in your answer; nothing is sent.

        Args:
            title: the problem in one line
            body: what was asked, what was found out, what is missing; in Markdown
        """
        if not title.strip():
            raise ToolError("the title is empty; say the problem in one line")
        return {"results": self._link(title, body)}

    def run(self, query: str) -> ResultText:
        """The link to an issue with the title `query`. Raises `ToolError` if it is empty."""
        return self.tool_function(query)
