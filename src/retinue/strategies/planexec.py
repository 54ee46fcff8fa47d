"""`planexec`: make a plan, check it, execute each step with another strategy, replan if necessary, answer.

(Plan-and-solve, Wang et al. 2023.) In `humanInLoopPlanExec`, a person approves each plan. Everything is bounded: the
steps of a plan, the replies per step, new plans, plans rejected by a person, and unreadable plans.

`planner` makes a plan for others to execute.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import partial

from ..core.prompt import Ask, Prompt
from ..core.protocols import Act, Flow, Strategy, Task, ask, can_call_natively, consult
from ..core.schema.patterns import Constraint, choice
from ..core.values import AgentAction, AgentFinish, Message, Observation, Reply, StopReason
from .auto import choose_strategy
from .parsing import final_answer
from .parsing.react_text import format_answer
from .plan_text import (
    END,
    RESULT_CHARS,
    Notes,
    UnreadablePlan,
    apply_decision,
    format_plan,
    neutralize_line,
    plan_shape,
    read_plan,
)
from .prompting.constraints import answer_shape
from .prompting.prompt_parts import describe_tools, format_history, read_prompt_parts
from .react import React
from .wrappers.wrapper import Part, perform, relay, without_visible_answer

TRIES = 3  # attempts to get a readable plan
_REPLY_TOKENS = 512
_NO_TOOLS = "(it is not said which; others carry the plan out)"
_NOT_FOUND = re.compile(r"\W*not[\s_]+found\b[\s:.,-]*(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class PlanExec:
    """The strategy. `executor` executes each step as its question.

    `approve`: a person decides on every plan. `check`: the model grades the plan, and may improve it, before
    execution. After `step_replies` replies for a step, its executor has to answer. `answer_chars` limits the length
    of the answer under constrained decoding.
    """

    executor: Strategy = React()  # noqa: RUF009 -- a frozen value
    approve: bool = False
    check: bool = False
    max_steps: int = 6
    max_replans: int = 2
    max_revisions: int = 3
    step_replies: int = 5
    answer_chars: int = 200

    @property
    def name(self) -> str:
        """OPEA's name."""
        return "humanInLoopPlanExec" if self.approve else "planexec"

    @property
    def native(self) -> bool:
        """Whether the executor can use an engine's native tool calls."""
        return can_call_natively(self.executor)

    def __call__(self, task: Task) -> Flow:
        """Plan, execute and answer."""
        return _Run(self, task).flow()


def human_in_loop() -> PlanExec:
    """Return OPEA's `humanInLoopPlanExec`, in which a person approves each plan."""
    return PlanExec(approve=True)


class _StepEnded(Exception):
    """Ends a step before its executor does, and the run with it if `run_ends`."""

    def __init__(self, finish: AgentFinish, *, run_ends: bool) -> None:
        self.finish, self.run_ends = finish, run_ends


class _Run:
    """The state of one run: completed steps, and findings of the current one."""

    def __init__(self, by: PlanExec, task: Task) -> None:
        self._by, self._task = by, task
        self._executor = choose_strategy(by.executor, task)
        self._news = task.question
        self._notes = Notes()
        self._plan_shape, self._answer_shape = plan_shape(by.max_steps), answer_shape(by.answer_chars)

    def flow(self) -> Flow:
        problem = ""
        for left in range(self._by.max_replans, -1, -1):
            plan = yield from self.agree_plan(problem)
            ended: AgentFinish | str
            ended = plan if isinstance(plan, AgentFinish) else (yield from self._execute_plan(plan))
            if isinstance(ended, str) and (not ended or not left):
                ended = yield from self._find_answer(may_miss=left > 0)
            if isinstance(ended, AgentFinish):
                return ended
            problem = ended
        raise AssertionError("the last answer must be an AgentFinish")

    def agree_plan(self, problem: str = "") -> Part[tuple[str, ...] | AgentFinish]:
        """Return a plan to execute, approved by a person if required; or the result, if the run ends without one."""
        why = "the plan needs a person's approval" + (f" ({problem})" if problem else "")
        wrong = ""
        plan = yield from self._ask_for_plan(problem)
        while self._by.approve and not isinstance(plan, AgentFinish):
            decision = yield from consult(AgentAction("plan", {"steps": list(plan)}), f"{why}{wrong}")
            try:
                if (steps := apply_decision(decision, plan, self._by.max_steps)) is not None:
                    return steps
            except UnreadablePlan as error:
                wrong = f"; the edited plan cannot be used: {error}"
            self._notes.revisions += 1
            if self._notes.revisions > self._by.max_revisions:
                refused = "there is no plan that a person agrees to; the last was met with"
                problem = f"{refused} {decision.kind}: {decision.message or 'nothing'}"
                return AgentFinish({"problem": problem, "best": ""}, reason=StopReason.ERROR)
            if decision.kind != "edit":
                self._notes.remarks.append(decision)
                wrong = ""
                plan = yield from self._ask_for_plan(problem)
        return plan

    def _ask_for_plan(self, problem: str) -> Part[tuple[str, ...] | AgentFinish]:
        """Return a plan by the model. If none is readable, the question itself is the only step."""
        prompt = Prompt(Message("user", self._fill_prompt_part("plan", problem)))
        news = f"{self._task.question}\n{problem}".strip()
        steps: tuple[str, ...] = (self._task.question,)
        stop = () if self._task.constrained else (END,)
        write, wrong = partial(format_plan, question=self._task.question), ""
        for _ in range(TRIES):
            request = Ask(prompt, news, write, stop, self._plan_shape, _REPLY_TOKENS, problem=wrong)
            reply = yield from ask(replace(request, closing=partial(self._ask_answer, news)))
            if reply.closing:
                return self._read_answer(reply)
            try:
                plan = read_plan(reply.text, self._by.max_steps)
            except UnreadablePlan as error:
                steps, wrong = error.steps[: self._by.max_steps] or steps, str(error)
            else:
                answered = final_answer.mark_truncated(AgentFinish({"output": plan.answer}, reply.text), reply)
                return answered if plan.answer else (yield from self._grade_plan(plan.steps))
            said = Message("assistant", f"{reply.text.rstrip()}\n")
            prompt = prompt.add(said, Message("user", f"{wrong}\nPlan:"))
        return steps

    def _grade_plan(self, steps: tuple[str, ...]) -> Part[tuple[str, ...]]:
        if not self._by.check:
            return steps
        numbered = " ".join(f"{at}. {step}" for at, step in enumerate(steps, 1))
        prompt = Prompt(Message("user", self._fill_prompt_part("check", plan=numbered)))
        shape = Constraint(choice(" yes\n", self._plan_shape.pattern), self._plan_shape.schema)
        reply = yield from ask(Ask(prompt, self._news, lambda _: Reply(" yes\n"), (), shape, _REPLY_TOKENS, aside=True))
        try:
            return read_plan(reply.text, self._by.max_steps).steps or steps
        except UnreadablePlan:  # "yes", or no usable improvement
            return steps

    def _execute_plan(self, steps: tuple[str, ...]) -> Part[AgentFinish | str]:
        """Execute the steps; return nothing on success, the problem if a step failed, or the run's result."""
        for step in steps:
            self._notes.seen = []
            finish, ends = yield from self._execute_step(step)
            answered = finish.reason in (StopReason.ANSWER, StopReason.REPLY_TRUNCATED) and bool(finish.output.strip())
            if ends or (answered and steps == (self._task.question,)):
                return finish
            if not answered:
                why = neutralize_line(finish.output, RESULT_CHARS) or str(finish.reason)
                return f"This step failed: {neutralize_line(step, RESULT_CHARS)} ({why})"
            self._notes.done.append((step, finish.output))
        self._notes.seen = []
        return ""

    def _execute_step(self, step: str) -> Part[tuple[AgentFinish, bool]]:
        """Execute a step; return its result, and whether the run ends with it."""
        question = self._fill_prompt_part("step", step=step).rstrip("\n")
        history = self._task.history if step == self._task.question else ()  # other steps are self-contained
        replies = 0

        def count_reply(request: Ask) -> Part[Reply]:
            nonlocal replies
            if request.aside:
                return (yield from ask(request))
            replies += 1
            if replies > 2 * self._by.step_replies:  # it does not terminate
                raise _StepEnded(AgentFinish({}, reason=StopReason.MAX_ITERATION_EXCEEDED), run_ends=False)
            request = without_visible_answer(request)
            self._news = request.news
            forced = request.closing is not None and replies >= self._by.step_replies
            if forced and request.closing is not None:
                request = replace(request.closing(), problem=request.problem)
            reply = yield from ask(replace(request, closing=partial(self._ask_answer, request.news)))
            if reply.closing:
                raise _StepEnded(self._read_answer(reply), run_ends=True)
            return replace(reply, closing=True) if forced else reply

        def note_results(request: Act) -> Part[tuple[Observation, ...]]:
            best = self._notes.done[-1][1] if self._notes.done else ""
            seen = yield from perform(replace(request, answer=best or request.answer))
            self._notes.seen += [one.text for one in seen if one.outcome == "result"]
            return seen

        try:
            inner = self._executor(replace(self._task, question=question, history=history))
            return (yield from relay(inner, count_reply, note_results)), False
        except _StepEnded as ended:
            return ended.finish, ended.run_ends

    def _find_answer(self, *, may_miss: bool) -> Part[AgentFinish | str]:
        """Return the answer; or, if `may_miss`, what is missing for it."""
        request = self._ask_answer(self._news, may_miss=may_miss)
        reply = yield from ask(replace(request, closing=partial(self._ask_answer, self._news)))
        finish = self._read_answer(reply)
        missing = _NOT_FOUND.match(finish.output) if may_miss and not reply.closing else None
        if missing is None:
            return finish
        return f"The answer was not found. Missing - {neutralize_line(missing.group(1), RESULT_CHARS) or 'not said'}"

    def _ask_answer(self, news: str, *, may_miss: bool = False) -> Ask:
        missing = read_prompt_parts("planexec")["missing"].template if may_miss else ""
        prompt = Prompt(Message("user", self._fill_prompt_part("answer", missing=missing).rstrip("\n")))

        def read_visible(text: str) -> str:
            shown = final_answer.read_visible_answer(text)
            return "" if may_miss and final_answer.may_begin_with(shown, "not found") else shown

        return Ask(prompt, news, format_answer, (), self._answer_shape, _REPLY_TOKENS, answer=read_visible)

    def _read_answer(self, reply: Reply) -> AgentFinish:
        """Parse the reply to "Final Answer:"; without output if there is no answer."""
        finish = final_answer.answer_of(reply.text, self._task.tools)
        if finish.output:
            return final_answer.mark_truncated(finish, reply)
        reason = StopReason.MAX_ITERATION_EXCEEDED if reply.closing else StopReason.UNREADABLE_REPLY
        return AgentFinish({}, reply.text, reason)

    def _fill_prompt_part(self, part: str, problem: str = "", **more: str) -> str:
        problems = f"{problem}\nPlan only what is left to do.\n" if problem else ""
        return read_prompt_parts("planexec")[part].safe_substitute(
            tools=describe_tools(self._task.tools) or _NO_TOOLS,
            most=self._by.max_steps,
            history=format_history(self._task.history, self._task.window),
            question=self._task.question,
            known=self._notes.format_known(),
            remarks=f"{problems}{self._notes.format_remarks()}",
            **more,
        )


@dataclass(frozen=True)
class Planner:
    """The strategy. It needs no tools, and its answer is `{"steps": ["…", …]}`.

    `approve`: a person decides on the plan. `check`: the model grades it, and may improve it. If the model answers at
    once instead of planning, that is the answer.
    """

    approve: bool = False
    check: bool = False
    max_steps: int = 6
    name: str = "planner"

    def __call__(self, task: Task) -> Flow:
        """Make a plan; `return_values["steps"]` contains it as a list."""
        by = PlanExec(approve=self.approve, check=self.check, max_steps=self.max_steps)
        plan = yield from _Run(by, task).agree_plan()
        if isinstance(plan, AgentFinish):
            return plan
        steps = list(plan)
        return AgentFinish({"output": json.dumps({"steps": steps}, ensure_ascii=False), "steps": steps})
