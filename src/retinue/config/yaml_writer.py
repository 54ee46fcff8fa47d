"""Writes a spec as YAML that `load_spec` reads back as the same spec. It contains nothing from the environment."""

from __future__ import annotations

import re
from typing import Any

import yaml

from .scalars import scalar
from .specs import FileSpec

_ESCAPED = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


class _Dumper(yaml.SafeDumper):
    """Writes strings so that YAML 1.1 and 1.2 read them as strings, and never uses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    if _ESCAPED.search(text) or not _is_text(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_text(text: str) -> bool:
    try:
        return isinstance(scalar(text), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _text)


def dump(spec: FileSpec) -> str:
    """Return `spec` as YAML, with only the keys that were given. `${NAME}` is kept as it is."""
    return dump_value(spec.model_dump(exclude_unset=True))


def dump_value(value: Any) -> str:
    """Return plain dicts, lists and scalars as YAML."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)
