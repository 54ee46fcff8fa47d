"""The page of the examples: each program, with what it says of itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_INTRO = """\
# Examples

Complete programs, which the tests run. Each is a file of `examples/`.
"""
_KINDS = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".md": "markdown"}


def example_pages(folder: Path) -> dict[str, str]:
    """The page, by its place in the site."""
    values = folder.parent / "deploy" / "chart" / "values.yaml"
    others = ["\n## The chart's values { #deploy-chart-values-yaml }\n\n", _shown(values, "deploy/chart/values.yaml")]
    return {"examples.md": _INTRO + "".join(_examples(folder)) + "".join(others)}


def _examples(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        name = path.stem.replace("_", "-")
        if path.suffix == ".py":
            says = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            yield f"\n## {_title(path)} {{ #{name} }}\n\n{says}\n\n{_shown(path, path.name)}"
        elif (path / "README.md").is_file():
            readme = (path / "README.md").read_text(encoding="utf-8")
            says = readme.partition("\n")[2].replace("\n#", "\n##")
            yield f"\n## {_title(path)} {{ #{name} }}\n\n{says}\n"
            for file in sorted(path.iterdir()):
                if file.suffix in (".py", ".yml", ".yaml"):
                    yield _shown(file, f"{path.name}/{file.name}")


def _title(path: Path) -> str:
    return path.stem.replace("_", " ").capitalize()


def _shown(path: Path, title: str) -> str:
    return f'\n````{_KINDS[path.suffix]} title="{title}"\n{path.read_text(encoding="utf-8").rstrip()}\n````\n'
