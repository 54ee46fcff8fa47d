"""The tool that finds open issues of Retinue, each with what people say of it."""

from __future__ import annotations

import os
import re

from retinue.components import GitHubAPI

_NAME = re.compile(r"\w*(?:_|[a-z][A-Z])\w*[?.,]?")  # a name of the program's: crawl_depth, DocumentStore
REPOSITORY = "retinue/retinue"


async def issues(words: str) -> str:
    """Finds open issues and bugs.

    Args:
        words: Words that are in the issue.
    """
    github = GitHubAPI(repository=REPOSITORY, top_k=3, base_url=os.environ.get("GITHUB_URL", "https://api.github.com"))
    found = (await github.search_issues(words, state="open"))["documents"]
    for name in filter(_NAME.fullmatch, words.split()):  # GitHub finds what has all of the words
        found = found or (await github.search_issues(name.strip("?.,"), state="open"))["documents"]
    rows = []
    for one in found:
        said = (await github.read_issue(one.meta["number"]))["documents"]
        text = " ".join(
            " ".join(each.content for each in [*said[1:], said[0]]).split()
        )  # what helps is in the comments
        rows.append(f"[#{one.meta['number']} {one.meta['title']}]({one.meta['link']}) {one.meta['title']}. {text}")
    return "\n".join(rows) or "Nothing was found."
