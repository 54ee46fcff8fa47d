"""`PromptTemplate`: variables are put in, and nothing is ever evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from retinue import DataError, Document, UsageError
from retinue.components import PromptTemplate
from retinue.components.prompt_node import list_built_in, resolve_template

# What injections into templates and format strings look like, and what they would do elsewhere.
PAYLOADS = [
    *["{{7*7}}", "${7*7}", "#{7*7}", "<%= 7*7 %>", "{%print(7*7)%}", "{{7*'7'}}", "*{7*7}", "@(7*7)", "~{7*7}"],
    *["{{config}}", "{{self}}", "{{request.application}}", "{{''.__class__.__mro__[1].__subclasses__()}}"],
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ namespace.__init__.__globals__.os.popen('id').read() }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{x}}{% endfor %}",
    "{% import os %}{{ os.system('id') }}",
    "{% include '/etc/passwd' %}",
    "{% extends 'x' %}",
    "{% set x = 1 %}{{x}}",
    "{query.__class__}",
    "{query.__class__.__mro__}",
    "{query.__init__.__globals__}",
    "{query[0]}",
    "{query!r}",
    "{query:>1000000000}",
    "{0}",
    "{}",
    "{0.__class__.__init__.__globals__[os].environ}",
    "%(query)s",
    "%s%s%s%s",
    "%(query.__class__)s",
    "%1000000000d",
    "$query.__class__",
    "$query[0]",
    "$query()",
    "$query.__init__.__globals__",
    "${query.__class__}",
    "${query}",
    "$(id)",
    "`id`",
    "$$query",
    "$__import__",
    "$__class__.__mro__",
    "$os.system('id')",
    "<#assign ex='freemarker.template.utility.Execute'?new()>${ex('id')}",
    "#set($x=7*7)$x",
    "{php}system('id');{/php}",
    "<script>alert(1)</script>",
    "f'{7*7}'",
    "{join(documents, delimiter=new_line)}",
    "{__import__('os').system('id')}",
    "$Query",
    "$QUERY",
    "$5 and $50",
    "$",
    "$$",
    "$ query",
    "\x00$\x00",
    "\ud800 {{7*7}}",
]


class Canary:
    """A value that notices whoever looks into it."""

    def __str__(self) -> str:
        return "a canary"

    def __format__(self, specification: str) -> str:
        raise AssertionError("formatted")

    def __call__(self) -> None:
        raise AssertionError("called")

    def __getitem__(self, key: Any) -> None:
        raise AssertionError("indexed")

    def __getattr__(self, name: str) -> None:
        if not name.startswith("__"):
            raise AssertionError(f"{name} read")
        raise AttributeError(name)


def expected(payload: str) -> str:
    """By hand: `$query` is a canary, `$$` a dollar, and the rest is text."""
    return "$".join(part.replace("$query", "a canary") for part in payload.split("$$"))


def test_there_are_enough_payloads() -> None:
    assert len(set(PAYLOADS)) >= 40


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_in_the_template_is_text_or_a_clear_error(payload: str) -> None:
    template = PromptTemplate(prompt_text=f"Say: {payload}")
    try:
        filled = template.fill(query=Canary(), os=None)
    except UsageError as error:
        assert "no value for $" in str(error)  # noqa: PT017 -- one of two ways
        assert set(template.variables) - {"query"}
    else:
        assert filled == f"Say: {expected(payload)}"
        assert "49" not in filled


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_in_a_value_is_text(payload: str) -> None:
    template = PromptTemplate(prompt_text="$query and $documents, $query")
    filled = template.fill(query=payload, documents=[Document(payload), Document("$query")])
    told = payload.replace("\ud800", "\ufffd")  # half a pair cannot be sent
    assert filled == f"{told} and {told}\n$query, {told}"


@given(st.text())
def test_any_text_can_be_said_by_doubling_its_dollars(text: str) -> None:
    assert PromptTemplate(prompt_text="x" + text.replace("$", "$$")).fill() == "x" + text


@given(st.text(alphabet="$ab_{}. 1A"), st.text())
def test_filling_puts_in_values_and_changes_nothing_else(text: str, value: str) -> None:
    template = PromptTemplate(prompt_text="x" + text)
    filled = template.fill(**dict.fromkeys(template.variables, value))
    if "$" not in text:
        assert filled == "x" + text
    assert not template.variables or value in filled


def test_variables_are_small_letters_digits_and_underscores() -> None:
    template = PromptTemplate(prompt_text="$a $b_2 $a.$_c $D $eF $1 ($query)")
    assert template.variables == ("a", "b_2", "_c", "query")
    assert template.fill(a=1, b_2=[1, "two"], _c={"k": "ä"}, query=2.5) == '1 1\ntwo 1.{"k": "ä"} $D $eF $1 (2.5)'


def test_documents_are_joined_by_their_contents() -> None:
    template = PromptTemplate(prompt_text="$documents|")
    assert template.fill(documents=[Document("one"), Document("two")]) == "one\ntwo|"
    assert template.fill(documents=Document("one")) == "one|"
    assert template.fill(documents=[]) == "|"


def test_a_missing_variable_names_the_template_and_itself() -> None:
    with pytest.raises(UsageError, match=r"template 'qa': no value for \$documents \(available: query\)"):
        PromptTemplate(name="qa", prompt_text="$query $documents").fill(query="x", documents=None)


def test_templates_come_by_name_as_text_and_from_files(tmp_path: Path) -> None:
    assert PromptTemplate("question-answering").variables == ("documents", "query")
    assert PromptTemplate("Answer $query").name == "custom-at-query-time"
    assert PromptTemplate(prompt_text="Hello").fill() == "Hello"
    path = tmp_path / "mine.txt"
    path.write_text("Answer $query\n", "utf-8")
    assert PromptTemplate(str(path)) == PromptTemplate("mine", "Answer $query")
    assert all(PromptTemplate(name).prompt_text for name in list_built_in())


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("summarisation", UsageError, "no template 'summarisation'; there are: question-answering, "),
        ("", UsageError, "a template needs a text"),
        ("nowhere.txt", DataError, "nowhere.txt: cannot be read"),
        ("mine.yaml", DataError, "mine.yaml: a template in YAML"),
    ],
)
def test_what_is_no_template_says_so(source: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PromptTemplate(source)


def test_what_is_said_at_run_time_reads_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the key", "utf-8")
    assert resolve_template(str(secret)).fill() == str(secret)
    assert resolve_template("summarization") == PromptTemplate("summarization")
