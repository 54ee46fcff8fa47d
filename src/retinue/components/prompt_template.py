"""`PromptTemplate`: named text with `$variables` and no evaluation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from ..core.result_text import as_text
from ..errors import DataError, UsageError

INLINE = "custom-at-query-time"
_VARIABLE = re.compile(r"\$(?:(\$)|([a-z_][a-z0-9_]*)(?![A-Za-z0-9_]))")
_NAME = re.compile(r"[-a-zA-Z0-9_/]+")
_BUILT_IN = files(__package__) / "templates"


@dataclass(frozen=True)
class PromptTemplate:
    """Text in which `$name` stands for a value: small letters, digits, underscores. `$$` is a `$`.

    There is no other syntax: no attributes, calls, filters or braces. Values are inserted unchanged, so a `$name` in a
    value is not expanded. `prompt_text` is the text. Without it, `name` is a built-in template (`question-answering`,
    …), the path of a `.txt` file, or the text itself.

    Raises `UsageError` for an unknown name, and `DataError` for an unreadable file.

    >>> PromptTemplate("Say $word, for $$5.").fill(word="$query")
    'Say $query, for $5.'
    """

    effects: ClassVar[str] = "read"

    name: str = INLINE
    prompt_text: str = ""

    def __post_init__(self) -> None:
        if not self.prompt_text:
            name, text = _find(self.name)
            object.__setattr__(self, "name", name)
            object.__setattr__(self, "prompt_text", text)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in order of first appearance."""
        return tuple(dict.fromkeys(found[2] for found in _VARIABLE.finditer(self.prompt_text) if found[2]))

    def fill(self, **values: Any) -> str:
        """Return the text with `values` inserted: documents by their contents, lists line by line.

        Raises `UsageError` if a value is missing; values without a variable are ignored.
        """
        for name in self.variables:
            if values.get(name) is None:
                given = ", ".join(key for key, value in values.items() if value is not None) or "nothing"
                raise UsageError(f"template {self.name!r}: no value for ${name} (available: {given})")
        texts = {name: _text(values[name]) for name in self.variables}
        return _VARIABLE.sub(lambda found: found[1] or texts[found[2]], self.prompt_text)


def resolve_template(template: PromptTemplate | str) -> PromptTemplate:
    """Return `template` itself, the built-in template that the text names, or a template with the text.

    Reads no file, because texts at run time may come from a tenant or a model.
    """
    if isinstance(template, PromptTemplate):
        return template
    return PromptTemplate(template) if _NAME.fullmatch(template) else PromptTemplate(INLINE, template)


@cache
def built_in() -> tuple[str, ...]:
    """Return the names of the built-in templates."""
    return tuple(sorted(file.name.removesuffix(".txt") for file in _BUILT_IN.iterdir()))


def _find(source: str) -> tuple[str, str]:
    """Return the name and the text of the template that `source` names or is."""
    if source in ("", INLINE):
        raise UsageError("a template needs a text: PromptTemplate(prompt_text=…), or the name of a built-in one")
    if source in built_in():
        return source, (_BUILT_IN / f"{source}.txt").read_text(encoding="utf-8").rstrip("\n")
    if "\n" not in source and source.endswith((".txt", ".yaml", ".yml")) and "$" not in source:
        return _from_file(Path(source).expanduser())
    if _NAME.fullmatch(source):
        raise UsageError(
            f"no template {source!r}; there are: {', '.join(built_in())} (pass a one-word text as prompt_text=…)"
        )
    return INLINE, source


def _from_file(path: Path) -> tuple[str, str]:
    if path.suffix != ".txt":
        raise DataError(f"{path}: a template in YAML is only read as part of a project; want a .txt file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DataError(f"template {path}: cannot be read as a text file in UTF-8: {error}") from error
    return path.stem, text.removesuffix("\n")


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "\n".join(as_text(item) for item in value)
    return as_text(value)
