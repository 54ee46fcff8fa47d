"""The contract of every component, which pipelines are built from and agents may use."""

from __future__ import annotations

import asyncio
import copy
import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._internal.type_check import describe_mismatch
from ..agent import Agent
from ..config.registry import COMPONENTS
from ..core.component import DeclaredComponent
from ..core.component_declaration import component
from ..core.tools.tool import Tool
from ..errors import NodeFailed, UsageError
from ..models import PromptModel
from ..pipelines import Pipeline
from .case import Case, call_in_several_loops, collect_cases, format_value, need, require, require_same, skip

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ComponentSubject:
    """A component under test. Cases that lack an input they need are skipped.

    Args:
        make: Returns a new component: a function, or an object with `run` or `run_async`.
        inputs: Values by name for successful runs, at least one set.
        failing: Valid values by name for which it raises.
        repeatable: The same values give the same outputs.
        yaml: All its settings can be written to a file, if its class is one that files support.
        secret: A key that it is made with; it may not appear in its `repr` or in errors.
    """

    make: Callable[[], Any]
    inputs: Sequence[Values]
    failing: Sequence[Values] = ()
    repeatable: bool = True
    yaml: bool = True
    secret: str = field(default="", repr=False)

    def component(self) -> DeclaredComponent:
        """Return a new component with its declaration."""
        return component(self.make())


def component_cases() -> tuple[Case[ComponentSubject], ...]:
    """Return a component's conformance suite, for `pytest.mark.parametrize("case", component_cases(), ids=str)`."""
    return collect_cases("component", globals())


async def _run(declared: DeclaredComponent | Pipeline, values: Values) -> Any:
    return await declared.run_async(**copy.deepcopy(dict(values)))


async def _run_alone(subject: ComponentSubject) -> list[Any]:
    """Return the outcome of each of the inputs, run one after the other."""
    return [await _run(subject.component(), values) for values in subject.inputs]


async def _find_refusal(subject: ComponentSubject, values: Values) -> str:
    """Return the message of the `UsageError` that these values raise."""
    try:
        found = await _run(subject.component(), values)
    except UsageError as error:
        return str(error)
    raise AssertionError(f"given {format_value(values)}, want a UsageError; it gave {format_value(found)}")


async def its_inputs_are_its_parameters(subject: ComponentSubject) -> None:
    """`run` and `run_async` take the declared inputs: the same names, with the same of them required."""
    something, declared = subject.make(), subject.component()
    require(declared.name, "it has no name")
    for method in ("run", "run_async"):
        function = None if isinstance(something, DeclaredComponent) else getattr(something, method, None)
        if function is None or declared.takes_all:
            continue
        parameters = inspect.signature(function).parameters.values()
        if any(one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in parameters):
            continue
        taken = {one.name: one.default is one.empty for one in parameters}
        inputs = {name: one.required for name, one in declared.inputs.items()}
        require_same(taken, inputs, f"what `{method}` takes (must it be given?), and what is declared")


async def its_outputs_are_those_it_declares(subject: ComponentSubject) -> None:
    """It returns the outputs that it declares, and no others."""
    declared = subject.component()
    require(subject.inputs, "ComponentSubject.inputs is empty; want values with which it runs")
    for found in await _run_alone(subject):
        outputs = found[0] if isinstance(found, tuple) else found
        require(isinstance(outputs, dict), f"it gave {format_value(outputs)}; want outputs by name")
        extra = [name for name in outputs if declared.outputs is not None and name not in declared.outputs]
        require(not extra, f"it gave {', '.join(extra)}, and declares {', '.join(declared.outputs or ())}")


async def a_missing_input_is_named(subject: ComponentSubject) -> None:
    """If a required input is missing, the run is refused with the input's name."""
    for name in subject.component().required:
        values = {key: value for key, value in subject.inputs[0].items() if key != name}
        said = await _find_refusal(subject, values)
        require(repr(name) in said, f"without {name!r} it says {said!r}; want the name in it")


async def an_unknown_input_is_named(subject: ComponentSubject) -> None:
    """An unknown input is refused with its name."""
    if subject.component().takes_all:
        skip("it takes whatever it is given")
    said = await _find_refusal(subject, {**subject.inputs[0], "no_such_input": 1})
    require("'no_such_input'" in said, f"given no_such_input it says {said!r}; want the name in it")


async def an_input_of_a_wrong_type_is_named(subject: ComponentSubject) -> None:
    """An input that does not match its type hint is refused with its name."""
    for name, declared in subject.component().inputs.items():
        if describe_mismatch(wrong := object(), declared.kind):
            said = await _find_refusal(subject, {**subject.inputs[0], name: wrong})
            require(repr(name) in said, f"of a wrong {name!r} it says {said!r}; want the name in it")


async def its_inputs_are_not_changed(subject: ComponentSubject) -> None:
    """A run does not modify its inputs, which other nodes may share."""
    for values in subject.inputs:
        given = copy.deepcopy(dict(values))
        await subject.component().run_async(**given)
        require_same(dict(values), given, "the inputs before and after")


async def blocking_and_awaited_are_the_same(subject: ComponentSubject) -> None:
    """If it has both `run` and `run_async`, they return the same."""
    need(subject, "repeatable")
    something = subject.make()
    for values, awaited in zip(subject.inputs, await _run_alone(subject), strict=True):
        blocking = await asyncio.to_thread(_run_blocking, something, copy.deepcopy(dict(values)))
        require_same(awaited, blocking, "awaited, and blocking")


def _run_blocking(something: Any, values: dict[str, Any]) -> Any:
    """Return the result of its own `run`, if it has one, interpreted as its component does."""
    declared = component(something)
    if isinstance(something, DeclaredComponent) or getattr(something, "run", None) is None:
        return declared.run(**values)
    outputs, branch = declared.split_outcome(something.run(**values))
    return outputs if declared.branches in (None, 1) and branch == "output_1" else (outputs, branch)


async def any_event_loop_will_do(subject: ComponentSubject) -> None:
    """A component may be run from different event loops in turn, as scripts and servers do."""
    declared = subject.component()
    await call_in_several_loops(lambda: _run(declared, subject.inputs[0]))


async def a_batch_keeps_its_order(subject: ComponentSubject) -> None:
    """The results of a batch are in the order of its inputs."""
    need(subject, "repeatable")
    batch = [copy.deepcopy(dict(values)) for values in subject.inputs] * 3
    found = await subject.component().run_batch_async(batch)
    require_same(await _run_alone(subject) * 3, found, "alone, and as a batch")


async def runs_side_by_side_are_independent(subject: ComponentSubject) -> None:
    """A component may be run many times at once; it is stateless."""
    need(subject, "repeatable")
    declared = subject.component()
    runs = [_run(declared, values) for values in subject.inputs for _ in range(3)]
    alone = [found for found in await _run_alone(subject) for _ in range(3)]
    require_same(alone, list(await asyncio.gather(*runs)), "alone, and at once")


async def a_copy_gives_the_same(subject: ComponentSubject) -> None:
    """A copy (`copy.copy`) is a component that returns the same."""
    need(subject, "repeatable")
    copied = component(copy.copy(subject.make()))
    require_same(await _run_alone(subject), [await _run(copied, one) for one in subject.inputs], "it, and its copy")


async def _run_in_pipeline(subject: ComponentSubject, values: Values) -> Any:
    pipeline = Pipeline(inputs=list(values))
    pipeline.add_node(subject.make(), "Node", ["Query"])
    return await _run(pipeline, values)


async def a_pipeline_may_be_made_of_it(subject: ComponentSubject) -> None:
    """As the node of a pipeline it returns the same as alone."""
    need(subject, "repeatable")
    for values, alone in zip(subject.inputs, await _run_alone(subject), strict=True):
        found = await _run_in_pipeline(subject, values)
        outputs = alone[0] if isinstance(alone, tuple) else alone
        require_same(outputs, {name: found.get(name) for name in outputs}, "alone, and in a pipeline")


async def what_it_raises_names_its_node(subject: ComponentSubject) -> None:
    """An error in a pipeline is a `NodeFailed` with the name of the node, and with the original error as its cause."""
    for values in need(subject, "failing"):
        try:
            found = await _run_in_pipeline(subject, values)
        except NodeFailed as error:
            require(error.node == "Node" and error.__cause__ is not None, f"it says {error!r} of the node 'Node'")
        else:
            require(False, f"given {format_value(values)}, want an error; it gave {format_value(found)}")


async def a_file_can_say_it(subject: ComponentSubject) -> None:
    """Written to YAML and read back, it is equal, and returns the same."""
    something = subject.make()
    if type(something).__name__ not in COMPONENTS or not subject.yaml:
        skip(f"files know no {type(something).__name__}, or ComponentSubject.yaml is false")
    first, second, read = _write_and_read(something)
    require_same(first, second, "as it was written, and is written again")
    if subject.repeatable:
        found = [await _run(component(read), one) for one in subject.inputs]
        require_same(await _run_alone(subject), found, "as it was, and as it is read")


def _write_and_read(something: Any) -> tuple[str, str, Any]:
    """Return its file, as an agent's tool, the file of what is read back, and that."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "a.yml"), Path(folder, "b.yml")
        Agent(PromptModel(script=["said"]), [Tool("it", something, "It")]).save_to_yaml(first)
        again = Agent.load_from_yaml(first)
        again.save_to_yaml(second)
        return first.read_text("utf-8"), second.read_text("utf-8"), again.tools[0].something


async def a_secret_is_not_shown(subject: ComponentSubject) -> None:
    """Neither the `repr` of a component nor an error that it raises contains its key."""
    secret = need(subject, "secret")
    require(secret not in repr(subject.make()), "its repr has the key in it")
    for values in subject.failing:
        try:
            await _run(subject.component(), values)
        except Exception as error:
            require(secret not in f"{error} {error!r}", f"a {type(error).__name__} has the key in it")
