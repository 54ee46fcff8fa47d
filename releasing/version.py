"""The one version."""

from __future__ import annotations

import re
from pathlib import Path


def version_of(root: Path) -> str:
    """Return the version that the source says."""
    text = (root / "src" / "retinue" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(\d+\.\d+\.\d+\S*)"', text, re.MULTILINE)
    assert found is not None
    return found[1]
