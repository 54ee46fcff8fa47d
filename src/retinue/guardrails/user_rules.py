"""Guardrails by user: which tools a user may call, and what a user may use up in a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.component import Configurable
from ..core.events import Asked, Called, Replied, Started
from ..core.hooks import Block, Hook, Verdict
from ..core.run_context import RunContext
from ..core.user_records import PROCESS, UserUse, fits_pattern
from ..errors import UsageError


class ToolsByUser(Configurable):
    """Lets users call only the tools listed for them. In names, `*` stands for any text.

    Args:
        allow: Patterns of tools by user: `{"*": ["search*"], "ann": ["*"], "acme/bob": ["send_mail"]}`. A name with a
            slash is of a user of a tenant. Whoever several names fit may call what any of them lists. An empty name
            is of runs for nobody in particular, which `*` does not fit.
    """

    def __init__(self, allow: Mapping[str, Sequence[str]]) -> None:
        if wrong := [name for name, tools in allow.items() if isinstance(tools, str)]:
            raise UsageError(f"ToolsByUser: {wrong[0]!r} wants a list of tools, such as ['search*']")
        self._allow = {name: tuple(tools) for name, tools in allow.items()}

    def hooks(self) -> list[Hook]:
        """Return the hook."""
        return [Hook("before_tool", self.judge, "ToolsByUser")]

    def lets(self, context: RunContext[Any], tool: str) -> bool:
        """Whether the run's user may call a tool of this name."""
        return any(
            self._fits(name, context) and any(fits_pattern(pattern, tool) for pattern in tools)
            for name, tools in self._allow.items()
        )

    def judge(self, event: Called, context: RunContext[Any]) -> Verdict:
        """Block the call of a tool that is not listed for the user."""
        if self.lets(context, event.action.tool):
            return None
        whose = f"the user {context.user}" if context.user else "whoever is no user"
        return Block(f"{whose} may not call {event.action.tool}")

    def _fits(self, name: str, context: RunContext[Any]) -> bool:
        tenant, slash, user = name.rpartition("/")
        if not context.user:
            return not user and (not slash or fits_pattern(tenant, context.tenant))
        return bool(user) and fits_pattern(user, context.user) and (not slash or fits_pattern(tenant, context.tenant))


class SpendPerDay(Configurable):
    """Lets each user use only so much in a day of UTC: `runs`, `tokens`, and `cost` in the currency of the prices.

    It is looked at before a run and before each request to a model. With a store, all processes on it count together,
    at most one reply late; without one, each process counts for itself, and from anew when it starts. Runs for nobody
    in particular have no limit here: a tenant's quota limits them.
    """

    def __init__(self, tokens: int | None = None, cost: float | None = None, runs: int | None = None) -> None:
        given = {"tokens": tokens, "cost": cost, "runs": runs}
        self._most = {what: most for what, most in given.items() if most is not None}
        if not self._most or any(most < 0 for most in self._most.values()):
            raise UsageError("SpendPerDay: want a limit of tokens, cost or runs, each 0 or more")

    def hooks(self) -> list[Hook]:
        """Return the hooks."""
        points = (("before_run", self.begin), ("before_model", self.ask), ("after_model", self.count))
        return [Hook(point, function, "SpendPerDay", replays=False) for point, function in points]  # type: ignore[arg-type]

    async def begin(self, event: Started, context: RunContext[Any]) -> Verdict:
        """Count the run, and refuse it if it is one too many."""
        if context.stored is None:
            PROCESS.add(context.tenant, context.user, runs=1)
        return self._judge(await context.records.used_today(), context, ("runs",))

    async def ask(self, event: Asked, context: RunContext[Any]) -> Verdict:
        """Refuse to ask the model once the limit is reached."""
        return self._judge(await context.records.used_today(), context, ("tokens", "cost"))

    def count(self, event: Replied, context: RunContext[Any]) -> Verdict:
        """Count what a reply used, where no store does."""
        if context.stored is None:
            PROCESS.add(context.tenant, context.user, event.reply.usage)
        return None

    def _judge(self, used: UserUse, context: RunContext[Any], kinds: Sequence[str]) -> Verdict:
        for what in kinds if context.user else ():
            most, so_far = self._most.get(what), getattr(used, what)
            if most is not None and (so_far > most or (what != "runs" and so_far == most)):
                amount = f"{so_far:,.4g}" if what == "cost" else f"{so_far:,}"
                return Block(
                    f"{context.user} has used {amount} of {most:,} {what} of this day; the next begins at 0:00 UTC"
                )
        return None
