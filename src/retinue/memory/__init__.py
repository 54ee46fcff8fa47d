"""What a conversation leaves behind for its next question."""

from .conversation import ConversationMemory
from .entities import EntityMemory
from .extracting import EntityExtractor
from .known import Entity, Fact
from .summarizing import EntitySummarizer

__all__ = ["ConversationMemory", "Entity", "EntityExtractor", "EntityMemory", "EntitySummarizer", "Fact"]
