"""Objects that can be loaded from and saved to YAML files. The implementation is in `retinue.config`, a higher layer,
so it is imported on use.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_FILES = "retinue.config.yaml_files"


class YamlSerializable:
    """An object that a file can define. `origin`: its definition, if it came from a file.

    Two are equal if their files define the same and nothing was added since.
    """

    origin: Any = None
    name: str

    def save_to_yaml(self, path: str | Path) -> None:
        """Write it with all its dependencies to `path`; `load_from_yaml` restores an equal object.

        Secrets are not written: `${NAME}` stays, and a literal key is replaced by the variable that will contain it.
        Raises `UsageError` for objects that a file cannot express, such as a function that is not in a file.
        """
        import_module(_FILES).save(self, path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, YamlSerializable) or self.origin is None or type(self) is not type(other):
            return self is other
        return bool(self.origin == other.origin and self.state() == other.state())

    def __hash__(self) -> int:
        return hash(self.name)

    def state(self) -> Any:
        """Return the settings, which may have changed since construction."""
        return None


def load_section(path: str | Path, section: str, name: str | None) -> Any:
    """Return what the file's `section` defines under `name`, which may be omitted if there is only one entry."""
    return import_module(_FILES).load(path, section, name)
