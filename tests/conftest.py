"""What several folders of tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue import RetinueError
from retinue.models import weights


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The embedded model's weights, for tests marked `model`."""
    try:
        return weights.find("")
    except RetinueError:
        pytest.fail("run: make model")
