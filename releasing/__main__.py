"""`python -m releasing`: make everything of a release into dist/."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import click

from . import archives
from .changelog import released, section
from .chart import check_chart
from .installation import extras, install, pythons, unavailable
from .version import version_of

_ROOT = Path(__file__).parents[1]
_IMAGE = ("deploy/Dockerfile", "deploy/Dockerfile.dockerignore", "pyproject.toml", "README.md", "LICENSE", "src")
_ENGINES = ("docker", "podman", "buildah")


@click.command()
@click.option("--version", "wanted", help="Make what is unreleased in CHANGELOG.md the section of this version first.")
@click.option("--install/--no-install", "tried", default=True, help="Install the wheel with each Python that is there.")
def main(wanted: str | None, tried: bool) -> None:
    """Build, check and sum up a release."""
    version = version_of(_ROOT)
    changes = _ROOT / "CHANGELOG.md"
    if wanted and wanted != version:
        problem = f"src/retinue/__init__.py says {version}, and not {wanted}; change __version__ there first"
        raise click.ClickException(problem)
    if wanted:
        changes.write_text(released(changes.read_text("utf-8"), version, date.today().isoformat()), "utf-8")
    notes = section(changes.read_text("utf-8"), version)
    if (chart := _ROOT / "deploy" / "chart").is_dir():
        check_chart(chart, version)
    dist = _ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    epoch = _epoch()
    wheel = _archives(dist, epoch)
    (dist / f"retinue-{version}-changes.md").write_text(notes, "utf-8")
    _deployed(dist, version, epoch)
    _bill_of_materials(dist / f"retinue-{version}.cdx.json")
    if tried:
        _try(wheel, version)
    lines = [f"{archives.sha256(file)}  {file.name}\n" for file in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("".join(lines), "utf-8")
    click.echo("".join(lines), nl=False)


def _archives(dist: Path, epoch: int) -> Path:
    wheel, sdist = (archives.build(_ROOT, dist, kind, epoch) for kind in ("wheel", "sdist"))
    with tempfile.TemporaryDirectory() as again, tempfile.TemporaryDirectory() as out_of_it:
        for kind, first in (("wheel", wheel), ("sdist", sdist)):
            archives.same(first, archives.build(_ROOT, Path(again), kind, epoch))
        archives.same(wheel, archives.rebuilt(sdist, Path(out_of_it), epoch))
    if found := archives.strange(wheel):
        raise click.ClickException(f"the wheel has what does not belong there: {', '.join(found[:5])}")
    click.echo("wheel and source distribution: two builds are equal, and the second makes the first")
    return wheel


def _deployed(dist: Path, version: str, epoch: int) -> None:
    """Pack the chart and the image's context, and build the image if there is an engine."""
    deploy = _ROOT / "deploy"
    if (deploy / "chart").is_dir():
        files = archives.tree(deploy / "chart", ["."])
        archives.pack(dist / f"retinue-chart-{version}.tgz", "retinue", files, epoch)
    else:
        click.echo("chart: there is no deploy/chart", err=True)
    if not (deploy / "Dockerfile").is_file():
        click.echo("image: there is no deploy/Dockerfile", err=True)
        return
    context = archives.tree(_ROOT, [place for place in (*_IMAGE, "requirements") if (_ROOT / place).exists()])
    archives.pack(dist / f"retinue-image-{version}.tar.gz", f"retinue-image-{version}", context, epoch)
    engine = next(filter(_runs, _ENGINES), None)
    if engine is None:
        click.echo(f"image: its context is packed, but not built; no {', '.join(_ENGINES)} runs here", err=True)
        return
    words = [engine, "build", "--file", str(deploy / "Dockerfile"), "--tag", f"retinue:{version}", str(_ROOT)]
    subprocess.run(words, check=True)


def _runs(engine: str) -> bool:
    """Whether an engine is there, and not only its command."""
    return (
        bool(shutil.which(engine)) and not subprocess.run([engine, "info"], capture_output=True, check=False).returncode
    )


def _bill_of_materials(file: Path) -> None:
    program = Path(sys.executable).with_name("cyclonedx-py")
    words = [str(program), "requirements", "--pyproject", "pyproject.toml", "--output-reproducible", "--of", "JSON"]
    done = subprocess.run(
        [*words, "-o", str(file), "requirements/all.txt"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise click.ClickException(f"the bill of materials: {done.stderr.strip()[-500:]}")


def _try(wheel: Path, version: str) -> None:
    there = pythons()
    for python, program in there.items():
        click.echo(f"Python {python}: installing the wheel, and resolving each extra …", err=True)
        install(wheel, program, _ROOT / "requirements" / "all.txt", version)
        missing = {extra: why for extra in extras(_ROOT) if (why := unavailable(_ROOT, python, extra))}
        if missing:
            raise click.ClickException(f"Python {python} has no wheels for: {missing}")
        click.echo(f"Python {python}: installed alone, it answers; there are wheels for each extra")
    for python in sorted({"3.11", "3.12", "3.13"} - set(there)):
        click.echo(f"Python {python}: not here, not tried", err=True)


def _epoch() -> int:
    """Return the time of the last commit, or what the environment says."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    words = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(words, cwd=_ROOT, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
