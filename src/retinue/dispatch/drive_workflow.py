"""The workflow of a run: it has workers drive the run for as long as there is something to drive.

Temporal imports this module by itself, so it imports nothing of ours.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

DRIVE = "drive"  # the activity
LOOK = "look"  # the signal
_BEAT = timedelta(seconds=5)  # without a heartbeat for so long, another worker gets the run
_LONGEST = timedelta(days=30)
_AGAIN = RetryPolicy(initial_interval=timedelta(seconds=0.5), maximum_interval=timedelta(seconds=5))


@workflow.defn(name="retinue.run", sandboxed=False)
class RunWorkflow:
    """Has a run driven until it has ended, or waits; its id is the run's, so there is one of each run at a time.

    A run that waits has no workflow: whoever has news of it signals it, and thereby starts the workflow again if it has
    completed. Temporal does the two in one transaction, so no signal is lost to a workflow that is about to complete.
    The only signal says to look, since all that is to be done (answers, cancels, ends of members) stands in the
    database: a signal that carried it could be lost, doubled or overtaken.
    """

    def __init__(self) -> None:
        self._news = False

    @workflow.run
    async def run(self, run_id: str) -> str:
        """Return how the run's last drive ended."""
        while True:
            self._news = False
            end: str = await workflow.execute_activity(
                DRIVE,
                run_id,
                result_type=str,
                heartbeat_timeout=_BEAT,
                start_to_close_timeout=_LONGEST,
                retry_policy=_AGAIN,
            )
            if not self._news:
                return end

    @workflow.signal(name=LOOK)
    def look(self) -> None:
        """Drive the run once more after this drive."""
        self._news = True
