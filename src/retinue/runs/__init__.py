"""Durable runs: each is driven from its event log by the process that holds its latest epoch."""

from .driver import Runs
from .due import DueRuns
from .follow import Followed, Subscriptions
from .run_input import RunInput

__all__ = ["DueRuns", "Followed", "RunInput", "Runs", "Subscriptions"]
