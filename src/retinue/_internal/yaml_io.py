"""What can be read from a file of agents and written to one. How is `retinue.config`'s, which stands above what
it builds: it is looked up when it is needed, as the builders of its registry are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_FILES = "retinue.config.yaml_files"


class YamlSerializable:
    """Something that a file can define. `origin`: how it is written, if it came from a file.

    Two of them are equal if their files say the same of them, and nothing was added to them since.
    """

    origin: Any = None
    name: str

    def save_to_yaml(self, path: str | Path) -> None:
        """Write it, with all that it uses, to `path`: `load_from_yaml` makes an equal one of that.

        No secret is written: `${NAME}` stays, and a key given in code or file becomes the variable that will
        hold it. Raises `UsageError` for what a file cannot say, such as a function that is in no file.
        """
        import_module(_FILES).save(self, path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, YamlSerializable) or self.origin is None or type(self) is not type(other):
            return self is other
        return bool(self.origin == other.origin and self.state() == other.state())

    def __hash__(self) -> int:
        return hash(self.name)

    def state(self) -> Any:
        """What may have changed since it was made."""
        return None


def load_section(path: str | Path, section: str, name: str | None) -> Any:
    """What the file's `section` defines under `name`, which may be left out if there is only one."""
    return import_module(_FILES).load(path, section, name)
