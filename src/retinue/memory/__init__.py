"""Memories, which carry information from one question of a conversation to the next.

They are imported on first use, because few agents have any.
"""

from typing import TYPE_CHECKING

from .._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from .conversation_memory import ConversationMemory
    from .entity_extractor import EntityExtractor
    from .entity_memory import EntityMemory
    from .entity_summarizer import EntitySummarizer
    from .known_entities import Entity, Fact

__all__ = ["ConversationMemory", "Entity", "EntityExtractor", "EntityMemory", "EntitySummarizer", "Fact"]

_HOME = {
    "ConversationMemory": "conversation_memory",
    "Entity": "known_entities",
    "EntityExtractor": "entity_extractor",
    "EntityMemory": "entity_memory",
    "EntitySummarizer": "entity_summarizer",
    "Fact": "known_entities",
}

__getattr__ = lazy_names(__name__, _HOME)
