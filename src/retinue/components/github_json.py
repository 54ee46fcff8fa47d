"""Converts GitHub's JSON to documents, and to texts for a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.values import Document
from .web_search import Searched, text

MAX_BODY = 4_000  # characters of an issue that is read,
MAX_COMMENT = 1_000  # and of each comment
_EXCERPT = 200  # characters of an issue in a list


def issue_of(item: Any) -> Document | None:
    """Convert an issue; `None` if it has no number or title."""
    if not isinstance(item, Mapping) or not isinstance(item.get("number"), int) or not text(item.get("title")):
        return None
    names = [text(one.get("name") if isinstance(one, Mapping) else one) for one in _list(item.get("labels"))]
    comments = item.get("comments")
    meta = {
        "title": text(item["title"]),
        "link": text(item.get("html_url")),
        "number": item["number"],
        "state": text(item.get("state")),
        "labels": [name for name in names if name],
        "comments": comments if isinstance(comments, int) else 0,
    }
    return Document(_text(item.get("body")) or meta["title"], meta["link"], meta)


def comment_of(item: Any) -> Document | None:
    """Convert a comment; `None` if it is empty."""
    if not isinstance(item, Mapping) or not _text(item.get("body")):
        return None
    author = text(_mapping(item.get("user")).get("login")) or "somebody"
    link = text(item.get("html_url"))
    return Document(_text(item["body"]), link, {"link": link, "author": author})


def code_of(item: Any) -> Document | None:
    """Convert a file with matches; its content is the matching places."""
    if not isinstance(item, Mapping) or not text(item.get("path")):
        return None
    fragments = [_text(_mapping(one).get("fragment")) for one in _list(item.get("text_matches"))]
    meta = {
        "title": text(item["path"]),
        "link": text(item.get("html_url")),
        "repository": text(_mapping(item.get("repository")).get("full_name")),
    }
    return Document("\n…\n".join(filter(None, fragments)) or meta["title"], meta["link"], meta)


def searched(found: Iterable[Document | None]) -> Searched:
    """Return search results, one line each."""
    documents = [document for document in found if document is not None]
    lines = [_line(document, _EXCERPT) for document in documents]
    return {"results": "\n".join(lines) or "Nothing was found. Try other words.", "documents": documents}


def read(issue: Document, found: Iterable[Document | None]) -> Searched:
    """Return an issue with its comments, truncated if too long."""
    comments = [comment for comment in found if comment is not None]
    said = [f"{comment.meta['author']}: {_cut(comment.content, MAX_COMMENT)}" for comment in comments]
    more = issue.meta["comments"] - len(said)
    shown = [_line(issue, 0), _cut(issue.content, MAX_BODY), *said, *([f"({more} more comments)"] if more > 0 else [])]
    return {"results": "\n\n".join(shown), "documents": [issue, *comments]}


def _line(document: Document, excerpt: int) -> str:
    meta = document.meta
    labels = f" ({', '.join(meta['labels'])})" if meta.get("labels") else ""
    head = f"#{meta['number']} [{meta['state']}] {meta['title']}{labels}" if "number" in meta else str(meta["title"])
    said = _cut(" ".join(document.content.split()), excerpt) if excerpt and document.content != meta["title"] else ""
    return f"{head} {meta['link']}" + (f": {said}" if said else "")


def _text(value: Any) -> str:
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _cut(said: str, most: int) -> str:
    return said if len(said) <= most else f"{said[:most].rstrip()} …"
