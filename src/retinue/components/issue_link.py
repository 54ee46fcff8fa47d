"""Links to a new GitHub issue with all fields filled in, for a person to review and submit."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import TypedDict
from urllib.parse import quote, urlencode

from ..core.component import Component
from ..errors import ToolError, UsageError

MAX_LINK = 8_000  # characters; GitHub answers 414 to longer ones
MAX_TITLE = 256
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")


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
