"""The content of a file as frozen, validated specs. Objects are built from them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, PrivateAttr
from pydantic_core import CoreSchema, core_schema

from .._internal.source_text import Source
from .._internal.yaml_text import dump_value
from ..core.tools.signature import read_exceptions
from ..core.tools.tool import ToolExample
from ..models.settings import Effort, Reason, Verbosity
from ..run.spec import LONGEST, MOST, as_question
from ..strategies import STRATEGIES
from .registry import COMPONENTS, ENGINES, MEMORY_TYPES

SECTIONS = ("components", "pipelines", "agents", "groups", "chains")
Name = Annotated[str, Field(min_length=1, max_length=200)]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,64}$")]
Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
ShareOrTokens = Annotated[float, Field(gt=0)]
Effects = Literal["read", "idempotent", "once"]


class Shapes:
    """Annotates a union whose members are known by their shape: a text, a list, a mapping, or true and false."""

    def __init__(self, text: str = "a text") -> None:
        self._words = {str: text, list: "a list", dict: "a mapping", bool: "true or false"}

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a union tagged by shape; the tags cannot be keys of a file."""
        members = {self._find_shape(one): one for one in get_args(union)}

        def find_tag(value: Any) -> str | None:
            shape = dict if isinstance(value, Spec) else type(value)
            return f"<{shape.__name__}>" if shape in members else None

        *most, last = [self._words[shape] for shape in members]
        choices = {f"<{shape.__name__}>": handler.generate_schema(one) for shape, one in members.items()}
        return core_schema.tagged_union_schema(
            choices, find_tag, custom_error_type="kind", custom_error_message=f"{', '.join(most)} or {last}"
        )

    def _find_shape(self, member: Any) -> type:
        origin = get_origin(member)
        if origin is Annotated:
            return self._find_shape(get_args(member)[0])
        return str if origin is Literal else origin or (member if member in self._words else dict)


class Spec(BaseModel):
    """The base of all specs: strict and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())


RoleName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,50}$")]
FieldType = Literal["any", "str", "int", "float", "bool", "list", "dict"]
Texts = Annotated[Name | list[Name], Shapes()]
Reads = Annotated[Name | list[Name] | dict[str, Name], Shapes()]


def _one_of(names: Iterable[str]) -> Any:
    """Return the JSON Schema of one of these names, or of code that a file names."""
    own = {"type": "string", "pattern": r"^[A-Za-z][\w.]*:[A-Za-z]\w*$"}
    known = {"type": "string", "enum": list(names)}
    return lambda schema: (schema.pop("type", None), schema.update(anyOf=[known, own]))


class HumanSpec(Spec):
    """A gate at which a person decides."""

    shows: str = ""
    question: str = ""


class RoleSpec(Spec):
    """A role: an `agent` (also a group or a chain), `pipeline` or `component` of the file, a `callable_api`, or a
    `human`; without any of these, the part of the file that has the role's name."""

    name: RoleName
    agent: Name | None = None
    pipeline: Name | None = None
    component: Name | None = None
    callable_api: Name | None = None
    human: HumanSpec | None = None
    input: Reads | None = None
    output: Texts | None = None
    description: str | None = None
    max_visits: Positive | None = None
    effects: Effects | None = None
    timeout: Seconds | None = None

    @property
    def part(self) -> str:
        """The name of the file's part that has the role, or an empty string."""
        if self.callable_api or self.human:
            return ""
        return self.agent or self.pipeline or self.component or self.name


class EdgeSpec(Spec):
    """An edge; `on: error` is followed if its head failed."""

    head: Annotated[Name, Field(validation_alias=AliasChoices("head", "head_node"))]
    tail: Annotated[Name, Field(validation_alias=AliasChoices("tail", "tail_node"))]
    on: Literal["error"] | None = None


class CaseSpec(Spec):
    """An expression, and what it leads to."""

    if_: Annotated[Name, Field(alias="if")]
    to: Name


class SelectorSpec(Spec):
    """What chooses: `when` cases, a `function` of the state, or a `model` that is asked a `question`."""

    when: Annotated[list[CaseSpec], Field(min_length=1)] | None = None
    otherwise: Name | None = None
    function: Name | None = None
    model: Name | None = None
    question: Name | None = None
    shows: list[Name] | None = None


Selector = Annotated[Name | SelectorSpec, Shapes()]
Tails = Annotated[list[Name] | dict[str, Name], Shapes()]


class ConditionalSpec(Spec):
    """Conditional edges: a head, the candidates, and the selector."""

    head: Annotated[Name, Field(validation_alias=AliasChoices("head", "head_node"))]
    tails: Annotated[Tails, Field(validation_alias=AliasChoices("tails", "tail_nodes"))]
    selector: Annotated[
        Selector, Field(validation_alias=AliasChoices("selector", "should_continue", "Should_Continue"))
    ]


class FieldSpec(Spec):
    """A field of the state. `reducer` is one of Retinue's, or a `file.py:function` of the old and the new value."""

    type: FieldType = "any"
    reducer: Name = "replace"
    default: Any = None


FieldItem = Annotated[FieldType | FieldSpec, Shapes()]
Step = Annotated[Name | RoleSpec, Shapes()]
Label = Literal["untrusted", "private", "effects"]


def _check_exceptions(said: str) -> str:
    read_exceptions(said)
    return said


class ExampleCallSpec(Spec):
    """A call in a worked example: `retinue.ExampleCall`."""

    thought: str
    tool_input: str | dict[str, Any]
    observation: str


class ExampleSpec(Spec):
    """A worked example of a tool's use: `retinue.ToolExample`."""

    question: str
    calls: Annotated[list[ExampleCallSpec], Field(min_length=1)]
    answer: str
    thought: str = ""
    follow_up: str = ""


class ToolOptions(Spec):
    """The options of any tool: those of `retinue.Tool`, and `labels` for the rule of two."""

    effects: Effects | None = None
    timeout: Seconds | None = None
    approval: bool | None = None
    polls: bool | None = None
    return_direct: bool | None = None
    reflections: Annotated[int, Field(ge=0)] | None = None
    labels: list[Label] | None = None
    not_done: Annotated[str, AfterValidator(_check_exceptions)] | None = None
    examples: list[ExampleSpec] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The given options, for `Tool`."""
        given = {name: one for name in ToolOptions.model_fields if (one := getattr(self, name)) is not None}
        given.pop("labels", None)
        if self.examples is not None:
            given["examples"] = tuple(ToolExample.of(one.model_dump()) for one in self.examples)
        return given


class ArgumentSpec(Spec):
    """An argument of a tool. With a `default`, it is optional."""

    type: Literal["str", "int", "float", "bool", "list", "dict"]
    description: str = ""
    default: Any = None


class ToolEntry(ToolOptions):
    """A tool in a tool file (OPEA's RFC on agents)."""

    callable_api: Name
    description: str | None = None
    env: str | None = None
    headers: dict[str, str] | None = None
    pip_dependencies: str | None = None
    args_schema: dict[str, ArgumentSpec] | None = None
    return_output: str | None = None
    params: dict[str, Any] | None = None


class ToolRef(ToolOptions):
    """A component, pipeline or agent of this file, used as a tool (Haystack's Agent proposal, PR 3925)."""

    name: ToolName
    pipeline_or_node: Name
    description: str = ""
    output_variable: str | None = None


class WorkerRef(ToolOptions):
    """An agent of this file that works for another one. `name` is what its supervisor calls it."""

    agent: Name
    name: ToolName | None = None
    description: str = ""


ToolFile = dict[str, ToolEntry]
WorkerItem = Annotated[Name | WorkerRef, Shapes()]
ToolItem = Annotated[str | ToolRef, Shapes()]
Tools = Annotated[str | list[ToolItem] | ToolFile, Shapes(text="a file or folder")]
Feedback = Annotated[bool | list[str], Shapes()]
Question = Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(as_question)]


class BudgetSpec(Spec):
    """The limits of a run, as in `retinue.Budget`."""

    steps: Positive | None = None
    seconds: Seconds | None = None
    tokens: Positive | None = None
    input_tokens: Positive | None = None
    output_tokens: Positive | None = None
    stale_steps: Positive | None = None
    total_steps: Positive | None = None
    depth: Annotated[int, Field(ge=0)] | None = None
    children: Annotated[int, Field(ge=0)] | None = None
    cost: Seconds | None = None
    early_stopping_method: Literal["generate", "force"] | None = None


class SandboxSpec(Spec):
    """What commands may use, as in `retinue.harness.Sandbox`."""

    network: list[Name] | None = None
    folders: list[Name] | None = None
    seconds: Seconds | None = None
    memory: Positive | None = None
    processes: Positive | None = None
    output: Positive | None = None
    disk: Positive | None = None


class HelpersSpec(Spec):
    """How many helpers a run may make, as in `retinue.harness.Helpers`."""

    depth: Positive | None = None
    at_once: Positive | None = None
    most: Positive | None = None


class HarnessSpec(Spec):
    """The pieces for long work, as in `retinue.Harness`."""

    workspace: Annotated[bool | Name, Shapes(text="a folder")] | None = None
    shell: Annotated[bool | SandboxSpec, Shapes()] | None = None
    skills: Texts | None = None
    agents_files: Texts | None = None
    todos: bool | None = None
    helpers: Annotated[bool | HelpersSpec, Shapes()] | None = None


class ContextSpec(Spec):
    """The shares of the window of each tier, or tokens above 1, as in `retinue.Context`; `null` turns one off."""

    results: ShareOrTokens | None = None
    clear: ShareOrTokens | None = None
    summary: ShareOrTokens | None = None
    drop: ShareOrTokens | None = None
    model: Name | None = None


class AgentParams(Spec):
    """An agent's parameters: Retinue's own, and those of Haystack and OPEA."""

    role: Literal["agent", "planner", "executor"] = "agent"
    instructions: str | None = None
    role_description: str | None = None
    questions: Annotated[list[Question], Field(max_length=MOST)] | None = None
    # the model: a component or a model name; a prompt node; a script; or an endpoint's settings
    model: Name | None = None
    models: Annotated[list[Name], Field(min_length=1)] | None = None
    fall_back_on: list[Reason] | None = None
    prompt_node: Name | None = None
    script: Annotated[list[Any], Field(min_length=1)] | None = None
    llm_engine: Annotated[str, Field(json_schema_extra={"enum": list(ENGINES)})] | None = None
    llm_endpoint_url: Name | None = None
    llm_model_id: Name | None = None
    api_key: str | None = None
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    effort: Effort | None = None
    verbosity: Verbosity | None = None
    thinking_tokens: Positive | None = None
    top_p: Share | None = None
    top_k: Positive | None = None
    repetition_penalty: Seconds | None = None
    max_new_tokens: Positive | None = None
    stream: bool | None = None
    timeout: Seconds | None = None
    # reasoning and tools
    strategy: Annotated[str, Field(json_schema_extra=_one_of(STRATEGIES))] | None = None
    custom_prompt: str | None = None
    tools: Tools | None = None
    registered_tools: bool | None = None
    workers: list[WorkerItem] | None = None
    handoffs: list[Name] | None = None
    exposed: bool | None = None
    require_human_feedback: Feedback | None = None
    answer: dict[str, Any] | None = None
    hooks: list[Name] | None = None
    harness: Annotated[bool | HarnessSpec, Shapes()] | None = None
    context: Annotated[bool | ContextSpec, Shapes()] | None = None
    # memory: memories of this file, or OPEA's settings
    memory: Texts | None = None
    with_memory: bool | None = None
    memory_type: Annotated[str, Field(json_schema_extra={"enum": list(MEMORY_TYPES)})] | None = None
    store_config: dict[str, Any] | None = None
    # limits
    budget: BudgetSpec | None = None
    recursion_limit: Positive | None = None
    max_iterations: Positive | None = None
    max_steps: Positive | None = None
    max_execution_time: Seconds | None = None
    early_stopping_method: Literal["generate", "force"] | None = None


class AgentSpec(Spec):
    """An agent."""

    name: Name
    params: AgentParams


class ComponentSpec(Spec):
    """A component of a known `type`, or of one's own: `package.module:Name`."""

    name: Name
    type: Annotated[str, Field(json_schema_extra=_one_of(COMPONENTS))]
    params: dict[str, Any] | None = None


class NodeSpec(Spec):
    """A node of a pipeline, and its inputs."""

    name: Name
    inputs: list[Name]


class PipelineSpec(Spec):
    """A pipeline."""

    name: Name
    nodes: Annotated[list[NodeSpec], Field(min_length=1)]


class GroupSpec(Spec):
    """A graph of roles, as `retinue.MessageGroup`."""

    name: Name
    roles: Annotated[list[RoleSpec], Field(min_length=1)]
    edges: list[EdgeSpec]
    conditional_edges: list[ConditionalSpec] | None = None
    state: dict[str, FieldItem] | None = None
    answer: Name | None = None
    model: Name | None = None
    description: str | None = None
    max_visits: Positive | None = None
    max_runs: Positive | None = None
    budget: BudgetSpec | None = None
    exposed: bool | None = None


class ChainSpec(Spec):
    """Steps one after another, as `retinue.Chain`."""

    name: Name
    steps: Annotated[list[Step], Field(min_length=1)]
    description: str | None = None
    budget: BudgetSpec | None = None
    exposed: bool | None = None


class FileSpec(Spec):
    """A whole file. `source` has the position of every value."""

    retinue: Annotated[int, Field(ge=1, le=1)] | None = None
    version: str | None = None
    components: list[ComponentSpec] | None = None
    pipelines: list[PipelineSpec] | None = None
    agents: list[AgentSpec] | None = None
    groups: list[GroupSpec] | None = None
    chains: list[ChainSpec] | None = None
    tools: Tools | None = None

    _source: Source = PrivateAttr(default=Source("<spec>"))

    @property
    def source(self) -> Source:
        """The parsed file."""
        return self._source


def build_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a whole file, for editors."""
    schema = FileSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema | {"title": "Retinue"}


def dump(spec: FileSpec) -> str:
    """Return `spec` as YAML, with only the keys that were given. `${NAME}` is kept as it is."""
    return dump_value(spec.model_dump(exclude_unset=True))
