"""What components keep of the arguments that they were made with."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path

import pytest

from retinue.components import LinkContentFetcher, Ranker, SerpAPIComponent, Wikipedia
from retinue.core.component import Component


class Joiner(Component):
    """A component of somebody's own."""

    def __init__(self, words: Iterable[str], folder: Path | None = None, *, name: str = "Joiner", **more: int) -> None:
        self.words = list(words)

    def run(self, text: str) -> str:
        """Join."""
        return text.join(self.words)


class Louder(Joiner):
    """One with the constructor of another."""


class Fixed(Joiner):
    """One with a constructor of its own, which calls the other."""

    def __init__(self, word: str) -> None:
        super().__init__([word], Path("x"))


class Plain(Component):
    """One without a constructor."""

    def run(self, text: str) -> str:
        """Do nothing."""
        return text


def test_arguments_are_kept_with_their_defaults_and_without_the_name() -> None:
    assert Joiner(["a"], name="Other", count=2).given == {"words": ["a"], "folder": None, "count": 2}
    assert Louder(("a",)).given == {"words": ("a",), "folder": None}
    assert copy.copy(Louder(("a",))).given == {"words": ("a",), "folder": None}


def test_those_of_the_outermost_constructor_are_kept() -> None:
    made = Fixed("a")
    assert (made.given, made.words) == ({"word": "a"}, ["a"])
    assert {"api_key", "top_k", "inputs", "base_url", "seconds"} <= set(SerpAPIComponent("key").given)


def test_a_path_is_a_text_and_what_can_be_read_once_is_kept() -> None:
    assert Joiner("ab", Path("here")).given == {"words": "ab", "folder": "here"}
    assert LinkContentFetcher(host for host in ["a:80"]).given["allow"] == ("a:80",)


def test_a_wrong_argument_is_pythons_own_error() -> None:
    with pytest.raises(TypeError, match=r"Ranker.__init__\(\) got an unexpected keyword argument 'topk'"):
        Ranker(topk=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Plain\(\) takes no arguments"):
        Plain(3)


def test_tools_of_a_subclass_are_its_own() -> None:
    class German(Wikipedia):
        def __init__(self) -> None:
            super().__init__("de")

    search, lookup = (tool.something for tool in German().tools())
    assert (search.operation, lookup.operation) == ("search", "lookup")
    assert search._service.base_url == lookup._service.base_url == "https://de.wikipedia.org/w"
