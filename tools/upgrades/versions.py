"""The code of other versions: the one before, as it is kept, and the next one, which is today's with a migration more.

`python -m upgrades.versions COMMIT FILE`, with `tests` and `tools` on the path, keeps a version's code.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from retinue.store.migrations import newest

ROOT = Path(__file__).parents[2]
KEPT = sorted((ROOT / "tests" / "recorded").glob("v*/src.tar.xz"))  # from the first release on
ADDED = "CREATE TABLE of_the_next_version (id VARCHAR(64) NOT NULL);\n\nALTER TABLE runs ADD COLUMN next VARCHAR(64);\n"
CHANGED = "ALTER TABLE keys RENAME COLUMN prefix TO beginning;\n"


def version_before(folder: Path) -> Path:
    """Put the code of the version before into `folder`; the path for `PYTHONPATH`."""
    with tarfile.open(KEPT[-1]) as kept:
        kept.extractall(folder, filter="data")
    return folder / "src"


def version_after(folder: Path, migration: str = ADDED) -> Path:
    """Put today's code with one more migration into `folder`; the path for `PYTHONPATH`."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    number = newest("sqlite") + 1
    (folder / f"src/retinue/store/migrations/{number:03}_next.sql").write_text(migration)
    return folder / "src"


def keep(commit: str, file: Path) -> None:
    """Keep the code of a commit."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(archive, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]))
