"""The changelog's sections."""

from __future__ import annotations

import re

import click

_UNRELEASED = "## Unreleased"


def section(text: str, version: str) -> str:
    """Return what the changelog says of a version. Raises `ClickException` if it says nothing."""
    found = re.search(rf"^## \[?{re.escape(version)}\]?(?: [^\n]*)?\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        only = f" only {_UNRELEASED!r};" if _UNRELEASED in text else ""
        fix = f"make release VERSION={version} makes that section out of it"
        raise click.ClickException(f"CHANGELOG.md has no section '## {version}';{only} {fix}")
    if not found[1].strip():
        raise click.ClickException(f"CHANGELOG.md: the section '## {version}' is empty; say what changed")
    return found[1].strip() + "\n"


def released(text: str, version: str, day: str) -> str:
    """Return the changelog with what is unreleased as the section of a version. Raises `ClickException`."""
    if re.search(rf"^## \[?{re.escape(version)}\]?(?: |$)", text, re.MULTILINE):
        raise click.ClickException(f"CHANGELOG.md has a section '## {version}' already; leave VERSION out")
    found = re.search(rf"^{_UNRELEASED}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None or not found[1].strip():
        raise click.ClickException(f"CHANGELOG.md: nothing is unreleased; say what changed under {_UNRELEASED!r}")
    return text.replace(_UNRELEASED + "\n", f"{_UNRELEASED}\n\n## {version} - {day}\n", 1)
