"""The definition of a pipeline: nodes, and where each takes its inputs from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..core.component import FIRST, DeclaredComponent
from ..core.component_declaration import component
from ..errors import UsageError

ROOT = "Query"
INPUTS = {ROOT: ("query",), "File": ("file_paths",)}  # by the root's name: the values it provides
_WIRE = re.compile(r"(?P<source>[^.]+)(\.(?P<branch>output_[1-9][0-9]*))?(\.(?P<key>(?!output_[1-9])[^.]+))?")


@dataclass(frozen=True, slots=True)
class Wire:
    """An input of a node: all values visible after `source`, if it chose `branch`.

    With a `parameter`, only that one is set, to the value `key`. `explicit`: the branch was written out. `shown` is the
    source as written; the alternative name of the root is `ROOT` here.
    """

    source: str
    branch: str = FIRST
    explicit: bool = False
    parameter: str = ""
    key: str = ""
    shown: str = ""

    def __str__(self) -> str:
        name = self.shown or self.source
        return f"{name}.{self.branch}" if self.explicit else name


@dataclass(frozen=True)
class Node:
    """The definition of a node.

    `inputs`: names of nodes (`"Query"` is the root, `"Classify.output_2"` a branch), or a mapping of parameters to
    single values: `{"text": "Summary.results"}`.
    """

    something: Any
    name: str
    inputs: Sequence[str] | Mapping[str, str] = (ROOT,)

    @cached_property
    def component(self) -> DeclaredComponent:
        """The component under the node's name. Raises `UsageError` if it is not one."""
        return replace(component(self.something), name=self.name)

    @cached_property
    def wires(self) -> tuple[Wire, ...]:
        """The parsed inputs. Raises `UsageError` for an invalid one."""
        if isinstance(self.inputs, str):
            raise UsageError(f"node {self.name!r}: inputs must be a list: [{self.inputs!r}]")
        named = isinstance(self.inputs, Mapping)
        items = self.inputs.items() if isinstance(self.inputs, Mapping) else [("", text) for text in self.inputs]
        return tuple(_wire(self.name, text, parameter, named) for parameter, text in items)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The names of the source nodes, without duplicates."""
        return tuple(dict.fromkeys(wire.source for wire in self.wires))


def root_of(nodes: Iterable[Node]) -> str:
    """Return the name that the nodes use for the root."""
    named = (wire.shown for node in nodes for wire in node.wires if wire.source == ROOT)
    return next(named, ROOT)


def _wire(node: str, text: str, parameter: str, named: bool) -> Wire:
    found = _WIRE.fullmatch(text) if isinstance(text, str) else None
    if found is None or bool(found["key"]) != named:
        want = 'NODE.VALUE, e.g. "Query.query"' if named else 'NODE or NODE.output_2, e.g. "Query"'
        raise UsageError(f"node {node!r}: cannot read the input {text!r} (want {want})")
    source, branch = found["source"], found["branch"]
    meant = ROOT if source in INPUTS else source
    return Wire(meant, branch or FIRST, bool(branch), parameter, found["key"] or "", source)
