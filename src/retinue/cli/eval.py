"""`retinue eval`: how good are agents, on a dataset of questions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from .._internal.sync_bridge import run_to_completion
from ..config.price_file import use_prices
from ..display.terminal import clean
from ..errors import RetinueError, UsageError
from ..evals.configurations import judge_of, load_configurations
from ..evals.datasets import FORMATS, open_dataset
from ..evals.kept_results import ANSWERS
from ..evals.report import format_share
from ..evals.study import SEARCHES, EvalProgress, Findings, Study, conduct, select_questions, write_reports
from .option_types import NEW_FOLDER, PATH
from .output import Progress


@click.command("eval")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Which agents; repeatable.")
@click.option("--dataset", required=True, metavar="D", help=f"A JSONL file or folder, or {'|'.join(FORMATS)}:PATH.")
@click.option("--out", type=NEW_FOLDER, default=Path("eval-results"), show_default=True)
@click.option("--first", type=click.IntRange(1), metavar="N", help="Only the first so many questions.")
@click.option("--tag", "tags", multiple=True, metavar="T", help="Only questions with this tag; repeatable.")
@click.option("--at-once", type=click.IntRange(1), default=1, show_default=True, help="Questions asked at once.")
@click.option("--search", type=click.Choice(SEARCHES), help="Give the agents a search of the dataset's passages.")
@click.option("--judge", default="", metavar="MODEL", help="Have a model judge the answers, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object and nothing else.")
def command(
    files: tuple[Path, ...],
    agents: tuple[str, ...],
    dataset: str,
    out: Path,
    first: int | None,
    tags: tuple[str, ...],
    at_once: int,
    search: str | None,
    judge: str,
    as_json: bool,
) -> int:
    """Ask the agents of each FILE the questions of a dataset, and report how good they are, with confidence intervals.

    Several agents are compared on the same questions. Each answer is kept in OUT at once, so the same command goes on
    where it was stopped. Writes OUT/report.md, .html and .json. The exit status is 0 if all questions were answered.
    """
    use_prices(beside=files[0])
    study = Study(
        load_configurations(files, agents),
        select_questions(open_dataset(dataset), tags, first),
        out,
        at_once,
        search or "",
        judge_of(files[0], judge) if judge else None,
    )
    try:
        with Progress() as progress:

            def show(told: EvalProgress) -> None:
                name = clean(told.configuration).replace(" ", "_")
                progress.show(f"{name} {told.right} of {told.done} right", told.done, told.of, "questions")

            findings = run_to_completion(conduct(study, show))
        return _report(study, findings, as_json=as_json)
    except OSError as error:
        raise UsageError(f"{error.filename or out}: {error.strerror or error}") from error
    except (KeyboardInterrupt, RetinueError):
        if (out / ANSWERS).exists():
            click.echo(f"stopped; the answers so far are in {out / ANSWERS}: the same command goes on", err=True)
        raise


def _report(study: Study, findings: Findings, *, as_json: bool) -> int:
    plain, page = write_reports(study, findings)
    if as_json:
        found = asdict(findings.figures) | {"reports": [str(plain), str(page)]}
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        for one in findings.figures.configurations:
            right = f"right {format_share(one.shares['right'])}" if "right" in one.shares else "nothing was answered"
            click.echo(f"{clean(one.name)}: {right} of {one.questions} questions")
        click.echo(f"The whole report is in {plain} and {page}.")
    for name, failed in findings.failed.items():
        why = next(iter(failed.values()))
        click.echo(
            f"{clean(name)}: {len(failed)} questions have no answer, since the model failed ({clean(why)}); "
            "the same command asks them again",
            err=True,
        )
    return int(bool(findings.failed))
