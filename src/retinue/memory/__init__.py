"""Memories, which carry information from one question of a conversation to the next.

They are imported on first use, because few agents have any.
"""

from typing import TYPE_CHECKING

from .._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from .conversation_memory import ConversationMemory as ConversationMemory
    from .entity_components import EntityExtractor as EntityExtractor, EntitySummarizer as EntitySummarizer
    from .entity_memory import Entity as Entity, EntityMemory as EntityMemory, Fact as Fact

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
