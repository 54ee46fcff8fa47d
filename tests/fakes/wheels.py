"""Wheels of small packages, for pip to find in a folder."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from pathlib import Path
from zipfile import ZipFile


def write_wheel(shelf: Path, name: str, version: str, code: str, *requires: str) -> Path:
    """The wheel of a package with one module of this `code`, which needs others."""
    shelf.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{file},sha256={_digest(text)},{len(text.encode())}\n" for file, text in files.items()]
    path = shelf / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(path, "w") as wheel:
        for file, text in {**files, f"{info}/RECORD": "".join(lines) + f"{info}/RECORD,,\n"}.items():
            wheel.writestr(file, text)
    return path


def _digest(text: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
