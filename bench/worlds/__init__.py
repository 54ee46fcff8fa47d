"""Invented worlds with questions (docs/evaluation.md), which no model can answer from memory."""

from __future__ import annotations

from .collection import KINDS, collected, questions, worlds, write
from .creation import create
from .encyclopedia import Passage, passages
from .facts import Entity, Fact, Quantity, World
from .question import Question
from .splits import SEEDS, Split, split_of_name, split_of_seed

__all__ = [
    "KINDS",
    "SEEDS",
    "Entity",
    "Fact",
    "Passage",
    "Quantity",
    "Question",
    "Split",
    "World",
    "collected",
    "create",
    "passages",
    "questions",
    "split_of_name",
    "split_of_seed",
    "worlds",
    "write",
]
