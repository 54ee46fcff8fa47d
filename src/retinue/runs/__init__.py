"""Runs that survive: driven from their logs, by whoever has their last epoch."""

from .driver import Assignment, Runs
from .fair_scheduler import Turns
from .recovery import recover
from .subscriptions import Followed, Followers

__all__ = ["Assignment", "Followed", "Followers", "Runs", "Turns", "recover"]
