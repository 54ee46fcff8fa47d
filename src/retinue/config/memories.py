"""The memory of an agent in a file: checks and construction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core.protocols import Memory
from .problems import Found, Node, unknown
from .registry import MEMORIES, MEMORY_TYPES
from .tool_files import path_within

_WANT = "want {path: FILE}, a JSON file that stores the memory"


def check_memory(params: Node, components: Mapping[str, Node], folder: Path) -> Iterator[Found]:
    """Check an agent's memory."""
    named = params.at("memory")
    memories = [name for name, one in components.items() if one.at("type").text in MEMORIES]
    for one in [named] if named.text else named:
        if one.text and one.text not in memories:
            yield Found(one.path, unknown("memory", one.text, memories))
    with_memory, kind = params.at("with_memory"), params.at("memory_type")
    if named.value and with_memory.value:
        yield Found(with_memory.path, "both 'memory' and 'with_memory' define its memory; keep one", at_key=True)
    if kind.text and kind.text not in MEMORY_TYPES:
        yield Found(kind.path, unknown("memory_type", kind.text, MEMORY_TYPES))
    if kind.text == "store":
        yield from _check_store(kind, params.at("store_config"), folder)


def _check_store(kind: Node, store: Node, folder: Path) -> Iterator[Found]:
    if not isinstance(store.value, dict):
        yield Found(kind.path, f"memory_type store needs 'store_config': {_WANT}")
    elif set(store.value) != {"path"} or not store.at("path").text:
        redis = "; Redis is not supported" if "redis_uri" in store.value else ""
        yield Found(store.path, f"store_config: {_WANT}{redis}", at_key=True)
    else:
        try:
            path_within(folder, store.at("path").text)
        except ValueError as error:
            yield Found(store.at("path").path, f"path: {error}")


def memories_of(params: Mapping[str, Any], part: Callable[[str], Any], folder: Path) -> list[Memory]:
    """Build the memories that an agent's parameters name; `part` returns the file's components."""
    if params.get("with_memory"):
        from ..memory import ConversationMemory

        kept = params.get("memory_type") == "store"
        return [ConversationMemory(path=path_within(folder, params["store_config"]["path"]) if kept else None)]
    named = params.get("memory", ())
    return [part(name) for name in ([named] if isinstance(named, str) else named)]
