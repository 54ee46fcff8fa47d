"""A Dockerfile, read: its stages with their instructions, variables replaced."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile_parse import DockerfileParser

_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


@dataclass
class Stage:
    """What begins with a `FROM`."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)  # COPY, RUN and WORKDIR, in their order
    env: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)  # what else is said, by instruction


def stages(file: Path) -> list[Stage]:
    """Read the stages of `file`."""
    parser = DockerfileParser(fileobj=io.BytesIO(file.read_bytes()))
    found: list[Stage] = []
    given: dict[str, str] = {}
    for one in parser.structure:
        said, value = one["instruction"], one["value"]
        if said == "COMMENT":
            continue
        if said == "FROM":
            base, _, name = replaced(value, given).partition(" AS ")
            found.append(Stage(base, name))
        elif said == "ARG":
            name, _, default = value.partition("=")
            (found[-1].env if found else given)[name] = default
        elif said in ("COPY", "RUN", "WORKDIR"):
            found[-1].steps.append((said, value))
            found[-1].config[said] = value
        elif said == "ENV":
            found[-1].env |= {name: replaced(text, found[-1].env) for name, text in _pairs(value)}
        else:
            found[-1].config[said] = value
    return found


def words(value: str) -> list[str]:
    """Return the words of an instruction in its form as JSON."""
    read = json.loads(value[value.index("[") :])
    assert isinstance(read, list)
    return read


def replaced(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with those variables replaced that have a value."""
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), text)


def _pairs(value: str) -> list[tuple[str, str]]:
    return [(name, text) for name, _, text in (one.partition("=") for one in shlex.split(value))]
