"""The parts of groups and chains in a file: roles, edges, selectors and fields of the state."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, Tag

from .spec_base import Effects, Name, Positive, Seconds, Spec, one_of

RoleName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,50}$")]
FieldType = Literal["any", "str", "int", "float", "bool", "list", "dict"]
Texts = Annotated[
    Annotated[Name, Tag("<text>")] | Annotated[list[Name], Tag("<items>")],
    one_of(text=str, items=list),
]
Reads = Annotated[
    Annotated[Name, Tag("<text>")] | Annotated[list[Name], Tag("<items>")] | Annotated[dict[str, Name], Tag("<map>")],
    one_of(text=str, items=list, map=dict),
]


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


Selector = Annotated[
    Annotated[Name, Tag("<text>")] | Annotated[SelectorSpec, Tag("<map>")],
    one_of(text=str, map=dict),
]
Tails = Annotated[
    Annotated[list[Name], Tag("<items>")] | Annotated[dict[str, Name], Tag("<map>")],
    one_of(items=list, map=dict),
]


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


FieldItem = Annotated[
    Annotated[FieldType, Tag("<text>")] | Annotated[FieldSpec, Tag("<map>")],
    one_of(text=str, map=dict),
]
Step = Annotated[
    Annotated[Name, Tag("<text>")] | Annotated[RoleSpec, Tag("<map>")],
    one_of(text=str, map=dict),
]
