"""The values visible at a point of a pipeline, and how they are merged where inputs meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.values import Document

Seen = Mapping[str, tuple[int, Any]]  # by name: the node that produced the value, and the value


def bare_values(seen: Seen) -> dict[str, Any]:
    """Return the values without their nodes."""
    return {name: value for name, (_, value) in seen.items()}


def with_outputs(seen: Seen, node: int, outputs: Mapping[str, Any]) -> Seen:
    """Return the values visible after `node`, which produced `outputs`."""
    return {**seen, **{name: (node, value) for name, value in outputs.items()}}


def merge(node: int, inputs: Sequence[Seen], before: Sequence[int]) -> Seen:
    """Merge the values of `inputs` at `node`, in order. `before` has the bit set of the nodes before each node.

    A value is superseded by one from a later node on its path. If several remain under one name, lists of documents are
    concatenated in the order of the inputs; of other values, the last wins.
    """
    if len(inputs) == 1:
        return inputs[0]
    found: dict[str, dict[int, Any]] = {}
    for seen in inputs:
        for name, (giver, value) in seen.items():
            found.setdefault(name, {})[giver] = value
    merged: dict[str, tuple[int, Any]] = {}
    for name, values in found.items():
        if len(values) > 1:
            later = 0
            for giver in values:
                later |= before[giver]
            values = {giver: value for giver, value in values.items() if not later >> giver & 1}
        if len(values) > 1 and all(map(_are_documents, values.values())):
            merged[name] = node, [document for documents in values.values() for document in documents]
        else:
            giver, value = values.popitem()
            merged[name] = giver, value
    return merged


def _are_documents(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Document) for item in value)
