"""What is known of a run's user beyond the run: what was used today, and which calls a person always allows.

A server, and a run with a store, keep it in the database (`store/user_records.py`); otherwise this process does."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .values import UNUSED, AgentAction, Always, Usage

DAY = 86_400  # seconds; days are those of UTC


class UserUse(NamedTuple):
    """What a user's runs of a day used: how many began, their tokens, and what these cost, in the prices' currency."""

    runs: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """That a person always allows one user's calls of a tool by an agent, so that nobody is asked about them again.

    Args:
        id: Its id.
        agent: Of which agent.
        tool: Which tool.
        asker: The name of the hook that asked; empty if the tool itself needs approval. Other askers still ask.
        tool_input: The input that the person saw and approved.
        always: How much it covers: `call`, the same input; `tool`, any; or patterns with `*` by the names of arguments,
            where the other arguments are as they were.
        created_at: When it was made, in Unix seconds.
        run: In which run.
    """

    id: str
    agent: str
    tool: str
    asker: str
    tool_input: Any
    always: Always
    created_at: int = 0
    run: str = ""

    def covers(self, action: AgentAction, agent: str, asker: str) -> bool:
        """Whether nobody is to be asked about this call."""
        given, seen = action.tool_input, self.tool_input
        if (self.agent, self.tool, self.asker) != (agent, action.tool, asker) or not self.always:
            return False
        if isinstance(self.always, str):
            return self.always == "tool" or _spell(given) == _spell(seen)
        if not isinstance(given, Mapping) or not isinstance(seen, Mapping) or given.keys() != seen.keys():
            return False
        return all(
            fits_pattern(self.always[name], value if isinstance(value, str) else _spell(value))
            if name in self.always
            else _spell(value) == _spell(seen[name])
            for name, value in given.items()
        )


def make_policy(action: AgentAction, agent: str, asker: str, always: Always, run: str) -> Policy:
    """Return the policy that a person made with a decision about `action`. The same decision makes the same one."""
    name = uuid.uuid5(uuid.NAMESPACE_OID, f"{run}/{action.id}/{asker}").hex
    return Policy(f"policy_{name}", agent, action.tool, asker, action.tool_input, always, int(time.time()), run)


def _spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def fits_pattern(pattern: str, text: str) -> bool:
    """Whether `text` is what `pattern` says, in which each `*` stands for any text. Takes linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    at = len(first)
    for part in rest[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return text.startswith(first) and len(text) - at >= len(rest[-1]) and text.endswith(rest[-1])


class UserRecords(Protocol):
    """Keeps what is known of the user of one run."""

    async def used_today(self) -> UserUse:
        """Return what the user's runs used on this day, this run included as far as it is known."""
        ...

    async def policies(self) -> list[Policy]:
        """Return what is always allowed."""
        ...

    async def keep(self, policy: Policy) -> bool:
        """Keep a policy; return whether it could be: a store keeps none for nobody in particular."""
        ...


class ProcessRecords:
    """Keeps it in this process: what users used on a day, and their policies by their ids."""

    def __init__(self) -> None:
        self.policies: defaultdict[tuple[str, str], dict[str, Policy]] = defaultdict(dict)
        self._used: dict[tuple[str, str], tuple[int, UserUse]] = {}

    def add(self, tenant: str, user: str, usage: Usage = UNUSED, runs: int = 0) -> None:
        """Add to what the user used today."""
        now = self.used(tenant, user)
        more = UserUse(now.runs + runs, now.tokens + usage.total_tokens, now.cost + usage.cost)
        self._used[tenant, user] = int(time.time() // DAY), more

    def used(self, tenant: str, user: str) -> UserUse:
        """Return what the user used today."""
        day, used = self._used.get((tenant, user), (0, UserUse()))
        return used if day == int(time.time() // DAY) else UserUse()


PROCESS = ProcessRecords()


class OfProcess(NamedTuple):
    """The part of `PROCESS` that is about a user."""

    tenant: str
    user: str

    async def used_today(self) -> UserUse:
        """Return what the user's runs in this process used today."""
        return PROCESS.used(*self)

    async def policies(self) -> list[Policy]:
        """Return what is always allowed in this process."""
        return [*PROCESS.policies[self].values()]

    async def keep(self, policy: Policy) -> bool:
        """Keep a policy until the process ends."""
        PROCESS.policies[self][policy.id] = policy
        return True
