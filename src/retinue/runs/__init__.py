"""Durable runs: each is driven from its event log by the process that holds its latest epoch."""

from .dispatcher import Dispatcher
from .driver import Runs
from .fair_scheduler import FairScheduler
from .outside_changes import OutsideChanges
from .peers import Peers
from .recovery import Recovery, recover_runs
from .run_input import RunInput
from .subscriptions import Followed, Subscriptions

__all__ = [
    "Dispatcher",
    "FairScheduler",
    "Followed",
    "OutsideChanges",
    "Peers",
    "Recovery",
    "RunInput",
    "Runs",
    "Subscriptions",
    "recover_runs",
]
