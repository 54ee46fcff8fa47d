"""Runs that survive: driven from their logs, by whoever has their last epoch."""

from .driving import Assignment, Runs
from .following import Followed, Followers
from .recovering import recover
from .turns import Turns

__all__ = ["Assignment", "Followed", "Followers", "Runs", "Turns", "recover"]
