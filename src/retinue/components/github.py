"""`GitHubAPI`: issues and code on GitHub, or on a GitHub Enterprise server."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any, Literal, Self
from urllib.parse import parse_qsl

from .._internal.message_text import suggestion
from ..core.component import QueryComponent
from ..core.tool import Tool
from ..errors import ToolError, UsageError
from ..net.retry import parse_retry_after
from ..net.service_client import Service, ServiceAnswer, ServiceRequest, ask_service, checked_query, error_text
from .github_json import code_of, comment_of, issue_of, read, searched
from .issue_link import REPOSITORY
from .web_search import Searched

OPERATIONS = ("search_issues", "search_code", "read_issue", "list_issues")
MAX_COMMENTS = 10  # of an issue
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
            raise UsageError(f"GitHubAPI: no operation {operation!r}; {suggestion(operation, OPERATIONS)}")
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
        wanted = [self._scoped(query, repository), "" if _KIND.search(query) else "is:issue"]
        wanted.append("" if state == "any" else f"state:{state}")
        return searched(map(issue_of, await self._found("issues", " ".join(filter(None, wanted)))))

    async def search_code(self, query: str, repository: str = "") -> Searched:
        """Search the code of a project on GitHub.

        Args:
            query: names or words that stand in the code
            repository: as owner/name, if it is not the usual one
        """
        return searched(map(code_of, await self._found("code", self._scoped(query, repository))))

    async def read_issue(self, issue: int | str, repository: str = "") -> Searched:
        """Read an issue on GitHub with its comments.

        Args:
            issue: its number, or owner/name#number, or its link
            repository: as owner/name, if it is not the usual one
        """
        match = _ISSUE.fullmatch(str(issue).strip())
        if match is None:
            raise ToolError(f"want the number of an issue, or owner/name#number, not {str(issue)[:80]!r}")
        path = f"/repos/{self._named(match[1] or repository)}/issues/{int(match[2])}"
        found = issue_of((await self._ask(path)).body)
        if found is None:
            raise ToolError("GitHub answered with something that is not the JSON of an issue")
        return read(found, map(comment_of, await self._listed(f"{path}/comments", {}, MAX_COMMENTS)))

    async def list_issues(self, label: str = "", repository: str = "") -> Searched:
        """List the open issues of a project on GitHub, the latest first.

        Args:
            label: only issues with this label; several with commas between them
            repository: as owner/name, if it is not the usual one
        """
        params = {"state": "open"} | ({"labels": label.strip()} if label.strip() else {})
        return searched(
            map(issue_of, await self._listed(f"/repos/{self._named(repository)}/issues", params, self.top_k))
        )

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def _named(self, repository: str) -> str:
        """Return the requested or default repository. Raises `ToolError`."""
        named = repository.strip() or self._repository
        if not named:
            raise ToolError("say which repository, as owner/name")
        if not REPOSITORY.fullmatch(named):
            raise ToolError(f"want the repository as owner/name, not {named[:80]!r}")
        return named

    def _scoped(self, query: str, repository: str) -> str:
        query = checked_query(query)
        if _SCOPED.search(query) or not (repository.strip() or self._repository):
            return query
        return f"{query} repo:{self._named(repository)}"

    async def _found(self, what: str, query: str) -> list[Any]:
        return await self._listed(f"/search/{what}", {"q": query}, self.top_k)

    async def _listed(self, path: str, params: Mapping[str, str], most: int) -> list[Any]:
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
        return await ask_service(self._service, ServiceRequest(path, params or {}, headers), _pause)


def _pause(answer: ServiceAnswer) -> float | None:
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
    return _SECONDARY if "secondary rate limit" in error_text(answer.body) else None
