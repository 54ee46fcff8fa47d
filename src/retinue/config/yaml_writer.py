"""A spec as YAML again: what `load_spec` reads as the same spec. Nothing of the environment is in it."""

from __future__ import annotations

import re
from typing import Any

import yaml

from .scalars import scalar
from .specs import FileSpec

_ESCAPED = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are texts in YAML 1.1 and 1.2, and nothing as an alias."""

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
    """`spec` as the text of a file, with the keys that were given. A `${NAME}` stays one."""
    return dump_value(spec.model_dump(exclude_unset=True))


def dump_value(value: Any) -> str:
    """Plain dicts, lists and scalars as YAML."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=120)
