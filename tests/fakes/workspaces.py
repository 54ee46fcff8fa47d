"""Workspaces of both kinds, and agents that do with them what they are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retinue import Agent, PromptModel
from retinue.harness import Harness

Calls = Sequence[tuple[str, Mapping[str, Any]]]


def writer(calls: Calls, harness: Harness | None = None, **options: Any) -> Agent:
    """An agent that makes these calls, one after the other, and then answers. Each result tells it where it is."""
    script: list[dict[str, Any]] = [{"call": {"tool": tool, "input": dict(given)}} for tool, given in calls]
    model = PromptModel(engine="scripted", script=[*script, {"finish": "Done."}])
    return Agent(model, harness=harness or Harness(), strategy="tool_calling", name="writer", max_steps=200, **options)


def seen(result: Any) -> list[str]:
    """What the calls of a run brought."""
    return [one.text for step in result.steps for one in step.observations]


def told(result: Any) -> list[Any]:
    """What the calls of a run told the application of the workspace."""
    return [one.data and one.data["workspace"] for step in result.steps for one in step.observations]


HOSTILE = (
    *("../x", "a/../../x", "/etc/passwd", "/", "", " ", ".", "..", "./..", "a/..", "//x", "~/../x/.."),
    *("a\\b", "..\\x", "C:\\x", "a\0b", "a\nb", "a\x1bb", "a\u202eb", "a\u2028b", "\ud800", "a/\x7f", "x" * 513),
    *("a/" + "y" * 256, "/proc/self/environ", "....//../x", "a/./../..", "\t", "../" * 40 + "etc/passwd", "a\x85b"),
)
"""Paths that no file of a workspace has."""


def make_links(folder: Path, outside: Path) -> None:
    """Links in a folder that lead out of it, and what is no file."""
    import os

    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "secret.txt")
    (folder / "self").symlink_to(folder / "self")
    (folder / "up").symlink_to("..")
    os.mkfifo(folder / "pipe")
