"""`PromptTemplate`: named text with `$variables` and no evaluation; `PromptNode`: a template and a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from .._internal.concurrency import gather_bounded
from .._internal.message_text import format_repr
from .._internal.sync_bridge import run_blocking
from ..core.completion import ask_once
from ..core.component import Configurable, DeclaredComponent, Input
from ..core.protocols import Model
from ..core.tools.result import as_text
from ..errors import DataError, UsageError
from ..models import PromptModel
from .services import check_positive

INLINE = "custom-at-query-time"
_VARIABLE = re.compile(r"\$(?:(\$)|([a-z_][a-z0-9_]*)(?![A-Za-z0-9_]))")
_NAME = re.compile(r"[-a-zA-Z0-9_/]+")
_BUILT_IN = files(__package__) / "templates"


@dataclass(frozen=True)
class PromptTemplate:
    """Text in which `$name` stands for a value: small letters, digits, underscores. `$$` is a `$`.

    There is no other syntax: no attributes, calls, filters or braces. Values are inserted unchanged, so a `$name` in a
    value is not expanded. `prompt_text` is the text. Without it, `name` is a built-in template (`question-answering`,
    …), the path of a `.txt` file, or the text itself. Raises `UsageError` for an unknown name, and `DataError` for an
    unreadable file.

    >>> PromptTemplate("Say $word, for $$5.").fill(word="$query")
    'Say $query, for $5.'
    """

    effects: ClassVar[str] = "read"

    name: str = INLINE
    prompt_text: str = ""

    def __post_init__(self) -> None:
        if not self.prompt_text:
            for field, value in zip(("name", "prompt_text"), _find_template(self.name), strict=True):
                object.__setattr__(self, field, value)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in order of first appearance."""
        return tuple(dict.fromkeys(found[2] for found in _VARIABLE.finditer(self.prompt_text) if found[2]))

    def fill(self, **values: Any) -> str:
        """Return the text with `values` inserted: documents by their contents, lists line by line. Raises `UsageError`
        if a value is missing; values without a variable are ignored."""
        for name in self.variables:
            if values.get(name) is None:
                given = ", ".join(key for key, value in values.items() if value is not None) or "nothing"
                raise UsageError(f"template {self.name!r}: no value for ${name} (available: {given})")
        texts = {name: _format_value(values[name]) for name in self.variables}
        return _VARIABLE.sub(lambda found: found[1] or texts[found[2]], self.prompt_text)


def resolve_template(template: PromptTemplate | str) -> PromptTemplate:
    """Return `template` itself, the built-in template that the text names, or a template with the text.

    Reads no file, because texts at run time may come from a tenant or a model.
    """
    if isinstance(template, PromptTemplate):
        return template
    return PromptTemplate(template) if _NAME.fullmatch(template) else PromptTemplate(INLINE, template)


@cache
def list_built_in() -> tuple[str, ...]:
    """Return the names of the built-in templates."""
    return tuple(sorted(file.name.removesuffix(".txt") for file in _BUILT_IN.iterdir()))


def _find_template(source: str) -> tuple[str, str]:
    """Return the name and the text of the template that `source` names or is."""
    if source in ("", INLINE):
        raise UsageError("a template needs a text: PromptTemplate(prompt_text=…), or the name of a built-in one")
    if source in list_built_in():
        return source, (_BUILT_IN / f"{source}.txt").read_text(encoding="utf-8").rstrip("\n")
    if _NAME.fullmatch(source):
        raise UsageError(
            f"no template {source!r}; there are: {', '.join(list_built_in())} (pass a one-word text as prompt_text=…)"
        )
    if "\n" in source or "$" in source or not source.endswith((".txt", ".yaml", ".yml")):
        return INLINE, source
    path = Path(source).expanduser()
    if path.suffix != ".txt":
        raise DataError(f"{path}: a template in YAML is only read as part of a project; want a .txt file")
    try:
        return path.stem, path.read_text(encoding="utf-8-sig").removesuffix("\n")
    except (OSError, ValueError) as error:
        raise DataError(f"template {path}: cannot be read as a text file in UTF-8: {error}") from error


def _format_value(value: Any) -> str:
    return "\n".join(map(as_text, value if isinstance(value, list | tuple) else [value]))


_QUERY = PromptTemplate("query", "$query")


class PromptNode(Configurable):
    """Fills a template with its inputs and sends it to a model.

    It is stateless. An agent uses its `model`, `stop_words` and `default_prompt_template`.

    Args:
        model_name_or_path: A `Model`, or a name that `PromptModel` accepts, with `api_key` and `model_kwargs` for it.
        default_prompt_template: A `PromptTemplate` or the name of one. Without it, the prompt is the query.
        output_variable: Name of the output that contains the replies.
        top_k: Number of replies.
        stop_words: Texts that end a reply.
        max_length: Maximum length of a reply in tokens.
    """

    effects = "read"

    def __init__(  # noqa: PLR0913 -- Haystack's
        self,
        model_name_or_path: Model | str = "local",
        default_prompt_template: PromptTemplate | str | None = None,
        *,
        output_variable: str = "results",
        stop_words: Iterable[str] = (),
        max_length: int | None = None,
        api_key: str | None = None,
        top_k: int = 1,
        model_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(model_name_or_path, str):
            self.model: Model = PromptModel(model_name_or_path, api_key=api_key, **(model_kwargs or {}))
        elif api_key or model_kwargs:
            raise UsageError(
                "PromptNode: api_key and model_kwargs apply to a model given by name; pass them to the model instead"
            )
        else:
            self.model = model_name_or_path
        check_positive("PromptNode", top_k=top_k)
        template = default_prompt_template
        self.default_prompt_template = PromptTemplate(template) if isinstance(template, str) else template
        self.output_variable = output_variable
        words = (stop_words,) if isinstance(stop_words, str) else tuple(stop_words)
        self.stop_words = tuple(word for word in words if word)
        self.given |= {"default_prompt_template": self.default_prompt_template, "stop_words": self.stop_words}
        self.max_length = max_length
        self.top_k = top_k

    def __repr__(self) -> str:
        template = self.default_prompt_template and self.default_prompt_template.prompt_text
        return format_repr(self, model=self.model.name, template=template, output_variable=self.output_variable)

    async def prompt_async(self, template: PromptTemplate | str | None = None, **variables: Any) -> list[str]:
        """Return the replies to `template`, or to the default template, filled with `variables`. Raises `UsageError`
        for a missing variable, and `ModelError`."""
        filled = self._choose_template(template).fill(**variables)

        async def reply(_: int) -> str:
            text = (await ask_once(self.model, filled, stop=self.stop_words, max_tokens=self.max_length)).text
            for word in self.stop_words:  # scripted and custom models may not apply stop words
                text = text.partition(word)[0]
            return text

        return await gather_bounded(reply, range(self.top_k), self.top_k)

    def prompt(self, template: PromptTemplate | str | None = None, **variables: Any) -> list[str]:
        """Run `prompt_async` and block."""
        return run_blocking(self.prompt_async(template, **variables))

    async def run_async(
        self, query: str | None = None, *, prompt_template: PromptTemplate | str | None = None, **variables: Any
    ) -> dict[str, Any]:
        """The replies as `output_variable`, and what was put into the template as `invocation_context`.

        Raises as `prompt_async` does.
        """
        template = self._choose_template(prompt_template)
        values = variables | ({} if query is None else {"query": query})
        replies = await self.prompt_async(template, **values)
        used = {name: values[name] for name in template.variables}
        return {self.output_variable: replies, "invocation_context": used | {self.output_variable: replies}}

    def run(
        self, query: str | None = None, *, prompt_template: PromptTemplate | str | None = None, **variables: Any
    ) -> dict[str, Any]:
        """Run `run_async` and block."""
        return run_blocking(self.run_async(query, prompt_template=prompt_template, **variables))

    async def run_batch_async(
        self, queries: Iterable[str | Mapping[str, Any]], *, at_once: int = 4, **variables: Any
    ) -> list[dict[str, Any]]:
        """Call `run_async` for each query, at most `at_once` at a time. Results are in the order of the queries.

        A query is a text, or several variables by name; `variables` are shared by all.
        """

        async def one(query: str | Mapping[str, Any]) -> dict[str, Any]:
            return await self.run_async(**(variables | ({"query": query} if isinstance(query, str) else dict(query))))

        return await gather_bounded(one, queries, at_once)

    def run_batch(
        self, queries: Iterable[str | Mapping[str, Any]], *, at_once: int = 4, **variables: Any
    ) -> list[dict[str, Any]]:
        """Run `run_batch_async` and block."""
        return run_blocking(self.run_batch_async(queries, at_once=at_once, **variables))

    def as_component(self) -> DeclaredComponent:
        """Return the declaration for pipelines: the template's variables are required, and the output is
        `output_variable`."""
        needed = self._choose_template(None).variables
        inputs = {name: Input() for name in needed} | {"prompt_template": Input(required=False, default=None)}
        outputs = {self.output_variable: list[str], "invocation_context": dict[str, Any]}
        always, output = frozenset(outputs), self.output_variable
        return DeclaredComponent(
            "PromptNode", self.run_async, inputs, outputs, always, output, branches=1, takes_all=True
        )

    def _choose_template(self, given: PromptTemplate | str | None) -> PromptTemplate:
        return resolve_template(given) if given is not None else self.default_prompt_template or _QUERY
