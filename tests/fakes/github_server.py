"""A server that speaks GitHub's REST API (2022-11-28), as far as issues and searching go.

with GitHubServer() as server:
    server.issues["deepset-ai/haystack"] = [issue(1, "Duplicate answers", labels=["bug"])]
    ... GitHubAPI(repository="deepset-ai/haystack", base_url=server.url) ...

A search finds issues that have all of its words; `repo:`, `is:`, `state:` and `label:` are understood.
`server.instead` takes `primary_limit(…)` and `secondary_limit(…)`, as well as any other answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .json_service import Asked, JSONService, Said, key_of

TOKEN = "github_pat_secret+/="
DOCS = "https://docs.github.com/rest"


class GitHubServer(JSONService):
    """`issues`: by repository, the oldest first; `comments`: texts by repository and number; `code`: by repository,
    files and what is in them."""

    def __init__(self) -> None:
        super().__init__()
        self.issues: dict[str, list[dict[str, Any]]] = {}
        self.comments: dict[tuple[str, int], list[str]] = {}
        self.code: dict[str, dict[str, str]] = {}

    def answer(self, asked: Asked) -> Said:
        if key_of(asked) not in ("", TOKEN):
            return error(401, "Bad credentials")
        match asked.path.removeprefix("/api/v3").strip("/").split("/"):
            case ["search", what]:
                return self._search(asked, what)
            case ["repos", owner, name, "issues", *rest] if f"{owner}/{name}" in self.issues:
                return self._issues(asked, f"{owner}/{name}", rest)
        return error(404, "Not Found")

    def _search(self, asked: Asked, what: str) -> Said:
        words = asked.params.get("q", "").split()
        if not words:
            missing = {"resource": "Search", "field": "q", "code": "missing"}
            return error(422, "Validation Failed", errors=[missing])
        if len(asked.params["q"]) > 256:
            long = {"message": "The search is longer than 256 characters.", "resource": "Search", "code": "invalid"}
            return error(422, "Validation Failed", errors=[long])
        if what == "code" and not key_of(asked):
            return error(401, "Requires authentication", errors=[{"message": "Must be authenticated to access code"}])
        qualifiers = dict(word.split(":", 1) for word in words if ":" in word)
        plain = [word.lower() for word in words if ":" not in word]
        repository = qualifiers.get("repo", "")
        found = self._code(repository, plain) if what == "code" else self._found(repository, qualifiers, plain)
        page, headers = _page(asked, found)
        return 200, {"total_count": len(found), "incomplete_results": False, "items": page}, headers

    def _found(self, repository: str, qualifiers: Mapping[str, str], words: Sequence[str]) -> list[dict[str, Any]]:
        found = []
        for one in self.issues.get(repository, []):
            text = f"{one['title']} {one['body'] or ''}".lower()
            kind = "pr" if "pull_request" in one else "issue"
            if not all(word in text for word in words) or qualifiers.get("is", kind) != kind:
                continue
            if qualifiers.get("state", one["state"]) == one["state"]:
                found.append({**one, "score": 1.0})
        return found

    def _code(self, repository: str, words: Sequence[str]) -> list[dict[str, Any]]:
        files = self.code.get(repository, {})
        return [
            {
                "name": path.rsplit("/", 1)[-1],
                "path": path,
                "sha": "d7212f9dee2dcc18f084d7df8f417b80846ded5a",
                "html_url": f"https://github.com/{repository}/blob/main/{path}",
                "repository": {"id": 1, "full_name": repository},
                "score": 1.0,
                "text_matches": [{"object_type": "FileContent", "property": "content", "fragment": text}],
            }
            for path, text in files.items()
            if all(word in text.lower() for word in words)
        ]

    def _issues(self, asked: Asked, repository: str, rest: Sequence[str]) -> Said:
        if not rest:
            wanted = set(filter(None, asked.params.get("labels", "").split(",")))
            state = asked.params.get("state", "open")
            issues = [
                one
                for one in reversed(self.issues[repository])
                if one["state"] == state and wanted <= {label["name"] for label in one["labels"]}
            ]
            page, headers = _page(asked, issues)
            return 200, page, headers
        found = next((one for one in self.issues[repository] if str(one["number"]) == rest[0]), None)
        if found is None:
            return error(404, "Not Found")
        texts = self.comments.get((repository, found["number"]), [])
        if rest[1:] == ["comments"]:
            page, headers = _page(asked, [_comment(found, at, text) for at, text in enumerate(texts, 1)])
            return 200, page, headers
        return 200, {**found, "comments": len(texts)}, {}


def issue(number: int, title: str, body: str | None = None, **other: Any) -> dict[str, Any]:
    """An issue as GitHub gives it; `labels` by name, `state`, and `pull_request` for one that is none."""
    labels = [{"id": at, "name": name, "color": "f29513"} for at, name in enumerate(other.pop("labels", ()))]
    pull = {"pull_request": {"url": "https://api.github.com/…"}} if other.pop("pull_request", False) else {}
    return {
        "id": 1_000_000 + number,
        "number": number,
        "title": title,
        "body": body,
        "state": "open",
        "labels": labels,
        "user": {"login": "octocat", "type": "User"},
        "comments": 0,
        "html_url": f"https://github.com/o/r/{'pull' if pull else 'issues'}/{number}",
        "created_at": "2023-02-06T10:00:00Z",
        **pull,
        **other,
    }


def error(status: int, message: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Said:
    """An error in GitHub's JSON."""
    return status, {"message": message, "documentation_url": DOCS, "status": str(status), **more}, headers or {}


def primary_limit(reset: float) -> Said:
    """No requests are left until the time `reset`, in seconds since 1970."""
    headers = {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(reset))}
    return error(403, "API rate limit exceeded for 127.0.0.1.", headers=headers)


def secondary_limit(retry_after: str | None = None, status: int = 429) -> Said:
    """Too much at once; the header is missing at times."""
    said = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    return error(status, said, headers={} if retry_after is None else {"Retry-After": retry_after})


def _comment(issue: Mapping[str, Any], at: int, text: str) -> dict[str, Any]:
    link = f"{issue['html_url']}#issuecomment-{at}"
    return {"id": at, "body": text, "user": {"login": f"user{at}"}, "html_url": link}


def _page(asked: Asked, items: Sequence[Any]) -> tuple[list[Any], dict[str, str]]:
    """A page of `items`, and the header that leads to the next one."""
    size, page = int(asked.params.get("per_page", 30)), int(asked.params.get("page", 1))
    shown = list(items[(page - 1) * size : page * size])
    if page * size >= len(items):
        return shown, {}
    given = "&".join(f"{key}={value}" for key, value in asked.params.items() if key != "page").replace(" ", "+")
    link = f"https://api.github.com{asked.path}?{given}&page={{}}"
    last = -(-len(items) // size)
    return shown, {"Link": f'<{link.format(page + 1)}>; rel="next", <{link.format(last)}>; rel="last"'}
