"""`Reader`: extracts answers verbatim from documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypedDict

from ..core.component import Component
from ..core.values import Document
from .prompt_node import PromptNode, PromptTemplate
from .services import check_positive

NOTHING = "The documents do not say."
_PROMPT = PromptTemplate(
    "extractive-answer",
    "$documents\n\n"
    "Which words of the documents above answer the question? Copy them exactly, as few as tell the answer, on a line "
    'of their own. Add nothing. If no document answers it, write "none".\n'
    "Question: $query\n"
    "Answer: ",
)
_NONE = ("none", NOTHING.casefold())
_MAX_QUOTE = 1_000  # characters
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_AROUND = " \t\"'`“”‘’«».,;:…"


class ExtractedAnswer(TypedDict):
    """`answer` is the text of the document `document_id` from `start` to `end` in its `content`."""

    answer: str
    document_id: str
    start: int
    end: int


class ExtractedAnswers(TypedDict):
    """`answers`, in the model's order, and `results`: the same as a text for a model."""

    answers: list[ExtractedAnswer]
    results: str


class Reader(Component):
    """Asks a model which words of the documents answer a query, and returns those that occur in a document.

    Case and whitespace are ignored in the comparison; anything else is omitted. `prompt_node`: a `PromptNode`, or the
    name of its model; a custom template uses `$query` and `$documents`. The first `top_k` documents are read.
    """

    effects = "read"

    def __init__(self, prompt_node: PromptNode | str = "local", top_k: int = 5, *, name: str = "Reader") -> None:
        check_positive(name, top_k=top_k)
        self.name = name
        self.prompt_node = PromptNode(prompt_node) if isinstance(prompt_node, str) else prompt_node
        self.top_k = top_k

    async def run_async(self, query: str, documents: Sequence[Document]) -> ExtractedAnswers:
        """Find the words of the documents that answer the query. Raises `ModelError`."""
        read = [document for document in documents[: self.top_k] if document.content.strip()]
        if not read:
            return {"answers": [], "results": NOTHING}
        template = self.prompt_node.default_prompt_template or _PROMPT
        replies = await self.prompt_node.prompt_async(template, query=query, documents=read)
        found = {(one["document_id"], one["start"], one["end"]): one for one in _find_answers(replies, read)}
        answers = list(found.values())
        return {"answers": answers, "results": "\n".join(one["answer"] for one in answers) or NOTHING}

    async def tool_function(self, query: str, texts: list[str]) -> ExtractedAnswers:
        """Find the words in texts that answer the query."""
        return await self.run_async(query, [Document(text) for text in texts])


def _find_answers(replies: Sequence[str], documents: Sequence[Document]) -> Iterator[ExtractedAnswer]:
    for line in (line for reply in replies for line in reply.splitlines()):
        quote = _BULLET.sub("", line).strip()
        for wanted in (quote, quote.strip(_AROUND)):
            if (answer := _find_quote(wanted, documents)) is not None:
                yield answer
                break


def _find_quote(quote: str, documents: Sequence[Document]) -> ExtractedAnswer | None:
    """Find the first occurrence of `quote`, as whole words."""
    words = quote.split()
    if not words or len(quote) > _MAX_QUOTE or quote.casefold() in _NONE or not re.search(r"\w", quote):
        return None
    pattern = re.compile(r"(?<!\w)" * words[0][0].isalnum() + r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    for document in documents:
        for found in pattern.finditer(document.content):
            if not (quote[-1].isalnum() and document.content[found.end() : found.end() + 1].isalnum()):
                return ExtractedAnswer(answer=found[0], document_id=document.id, start=found.start(), end=found.end())
    return None
