"""Runs that survive: driven from their logs, by whoever has their last epoch."""

from .driver import RunInput, Runs
from .fair_scheduler import FairScheduler
from .recovery import recover_runs
from .subscriptions import Followed, Subscriptions

__all__ = ["FairScheduler", "Followed", "RunInput", "Runs", "Subscriptions", "recover_runs"]
