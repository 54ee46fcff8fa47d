"""Schemas shared by requests, in OpenAI's shapes and with its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag, model_validator
from pydantic_core import CoreSchema, PydanticCustomError


class Wire(BaseModel):
    """A request, or part of one. Unknown keys are ignored, or refused if the server runs with `--strict`."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, protected_namespaces=())

    def sent(self) -> dict[str, Any]:
        """Return the fields that were sent, as JSON."""
        return self.model_dump(exclude_unset=True, by_alias=True)


class OneOfTwo(Wire):
    """A request to one of OpenAI's two APIs for answers. It refuses parameters that have another name in this one, and
    those that this one lacks."""

    moved: ClassVar[Mapping[str, str]] = {}
    """Parameters of another of OpenAI's APIs, and what they are called in this one."""
    foreign: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Parameters that only another API has, with the values that would change nothing."""

    @model_validator(mode="before")
    @classmethod
    def _of_this_api(cls, given: Any) -> Any:
        for name, now in cls.moved.items() if isinstance(given, dict) else ():
            if given.get(name) is not None:
                raise PydanticCustomError("moved", "{name}", {"name": name, "now": now})
        for name, idle in cls.foreign.items() if isinstance(given, dict) else ():
            if given.get(name) is not None and given[name] not in idle:
                raise PydanticCustomError("foreign", "{name}", {"name": name})
        return given


class ByType:
    """Tells the members of a union of objects apart by their `type`: `Annotated[A | B, ByType()]`. `read_type` reads
    the type where it may be left out. Tags are `<NAME>`, which no key can be; the error's message lists the names."""

    def __init__(self, read_type: Callable[[Mapping[str, Any]], Any] = lambda value: value.get("type")) -> None:
        self._read_type = read_type

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the union `source`."""
        tags = {name: member for member in get_args(source) for name in _list_types(member)}

        def tag(value: Any) -> str | None:
            kind = self._read_type(value) if isinstance(value, dict) else getattr(value, "type", None)
            return f"<{kind}>" if isinstance(kind, str) else None

        return _tagged(tags, Discriminator(tag, "by_type", ", ".join(f"'{name}'" for name in tags)), handler)


class ByJson:
    """Tells the members of a union apart by their JSON type: `Annotated[str | list[str], ByJson("…")]`. `said`
    describes the expected value."""

    def __init__(self, said: str) -> None:
        self._said = said

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the union `source`."""

        def tag(value: Any) -> str | None:
            name = _JSON_TYPES.get(type(value), "object" if isinstance(value, Wire) else None)
            return name and f"<{name}>"

        tags = {_name_json_type(member): member for member in get_args(source)}
        return _tagged(tags, Discriminator(tag, "either", self._said), handler)


_JSON_TYPES: Mapping[Any, str] = {str: "string", bool: "boolean", list: "array", dict: "object", Literal: "string"}


def _list_types(member: type[BaseModel]) -> list[str]:
    """Return the values that the `type` of an object may have."""
    kinds = member.model_fields["type"].annotation
    return [name for one in (kinds, *get_args(kinds)) for name in get_args(one) if isinstance(name, str)]


def _name_json_type(member: Any) -> str:
    while get_origin(member) is Annotated:
        member = get_args(member)[0]
    return _JSON_TYPES.get(get_origin(member) or member, "object")


def _tagged(tags: Mapping[str, Any], discriminator: Discriminator, handler: GetCoreSchemaHandler) -> CoreSchema:
    members = tuple(Annotated[member, Tag(f"<{name}>")] for name, member in tags.items())
    return handler.generate_schema(Annotated[Union[members], discriminator])  # noqa: UP007


Name = Annotated[str, Field(min_length=1, max_length=256)]
Id = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00]*$")]  # PostgreSQL text cannot hold NUL
Many = Field(max_length=2_048)  # messages, and parts of one
Text = Annotated[str, Field(min_length=1, max_length=256_000)]
Instructions = Annotated[str, Field(max_length=256_000)]
Temperature = Annotated[float, Field(ge=0, le=2)]
Share = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
MAX_NUMBER = 2**31 - 1
Tokens = Annotated[int, Field(ge=256, le=MAX_NUMBER)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]
FunctionName = Annotated[str, Field(min_length=1, max_length=64, pattern="^[a-zA-Z0-9_-]+$")]


class Problem(Wire):
    """An error: `param` names the parameter, `code` the kind of error."""

    message: str
    type: str
    param: str | None
    code: str | None


class Refused(Wire):
    """The body of every error response."""

    error: Problem


class Function(Wire):
    """A function that the client runs; `parameters` is a JSON Schema."""

    name: FunctionName
    description: Annotated[str, Field(max_length=65_536)] | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(Wire):
    """A function tool."""

    type: Literal["function"]
    function: Function


class CodeInterpreterTool(Wire):
    """The hosted code interpreter."""

    type: Literal["code_interpreter"]


class Ranking(Wire):
    """Which passages a search keeps."""

    score_threshold: Share | None = None
    ranker: Annotated[str, Field(max_length=64)] | None = None


class RankingOptions(Wire):
    """Which passages a file search keeps."""

    score_threshold: Share
    ranker: Literal["auto", "default_2024_08_21"] | None = None


class FileSearch(Wire):
    """Options of a file search."""

    max_num_results: Annotated[int, Field(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None


class FileSearchTool(Wire):
    """The hosted file search."""

    type: Literal["file_search"]
    file_search: FileSearch | None = None


Tool = Annotated[FunctionTool | CodeInterpreterTool | FileSearchTool, ByType()]


class CodeInterpreterFiles(Wire):
    """The files available to the code interpreter."""

    file_ids: Annotated[list[str], Field(max_length=20)] | None = None


class FileSearchStores(Wire):
    """The vector stores that file search uses."""

    vector_store_ids: Annotated[list[str], Field(max_length=1)] | None = None
    vector_stores: Annotated[list[dict[str, Any]], Field(max_length=1)] | None = None


class ToolResources(Wire):
    """The resources of hosted tools."""

    code_interpreter: CodeInterpreterFiles | None = None
    file_search: FileSearchStores | None = None


class NamedFunction(Wire):
    """A function, by name."""

    name: FunctionName


class FunctionChoice(Wire):
    """Requires a call of this function."""

    type: Literal["function"]
    function: NamedFunction


class HostedChoice(Wire):
    """Requires a call of this hosted tool."""

    type: Literal["code_interpreter", "file_search"]


ToolChoice = Annotated[
    Literal["none", "auto", "required"] | Annotated[FunctionChoice | HostedChoice, ByType()],
    ByJson("one of a string or an object"),
]


class JsonSchema(Wire):
    """The schema of the answer."""

    name: FunctionName
    description: str | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None


class SchemaFormat(Wire):
    """The answer is JSON that matches a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


class PlainFormat(Wire):
    """The answer is text, or any JSON."""

    type: Literal["text", "json_object"]


FormatObject = Annotated[PlainFormat | SchemaFormat, ByType()]
ResponseFormat = Annotated[Literal["auto"] | FormatObject, ByJson("one of a string or an object")]


class TruncationStrategy(Wire):
    """How much of its thread a run sees."""

    type: Literal["auto", "last_messages"]
    last_messages: Annotated[int, Field(ge=1, le=MAX_NUMBER)] | None = None


class MetadataUpdate(Wire):
    """`POST` to a conversation, a message or a run: replaces its metadata."""

    metadata: Metadata | None = None


class ToolOutput(Wire):
    """The output of a call that the client ran, or a decision on it."""

    tool_call_id: Name
    output: str | None = None


class SubmitToolOutputs(Wire):
    """Answers to the calls that a run waits for."""

    tool_outputs: Annotated[list[ToolOutput], Many]
    stream: bool | None = None

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """The answers, by the client's ids of the calls."""
        return [(one.tool_call_id, one.output or "") for one in self.tool_outputs]
