"""Memories, which carry information from one question of a conversation to the next."""

from .conversation_memory import ConversationMemory
from .entity_extractor import EntityExtractor
from .entity_memory import EntityMemory
from .entity_summarizer import EntitySummarizer
from .known_entities import Entity, Fact

__all__ = ["ConversationMemory", "Entity", "EntityExtractor", "EntityMemory", "EntitySummarizer", "Fact"]
