"""What the chart renders for each set of values in deploy/chart/ci, which `make chart` proves to be current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parents[1] / "deploy" / "rendered"
SETS = sorted(one.stem for one in _FOLDER.glob("*.yaml"))


def manifests(values: str, kind: str = "") -> list[dict[str, Any]]:
    """The manifests, or those of a kind."""
    found = yaml.safe_load_all((_FOLDER / f"{values}.yaml").read_text("utf-8"))
    return [one for one in found if one and kind in ("", one["kind"])]


def pod(values: str, component: str) -> dict[str, Any]:
    """The pod of servers, of workers or of the migration."""
    found = [*manifests(values, "Deployment"), *manifests(values, "Job")]
    (one,) = [one for one in found if one["metadata"]["labels"]["app.kubernetes.io/component"] == component]
    spec: dict[str, Any] = one["spec"]["template"]["spec"]
    return spec


def container(values: str, component: str) -> dict[str, Any]:
    """Its only container."""
    (only,) = pod(values, component)["containers"]
    return dict(only)
