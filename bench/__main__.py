"""Run the measurements and write them into RESULTS.md."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import click

from bench import (
    caching,
    concurrency,
    config,
    documents,
    durable,
    engine,
    footprint,
    fuzz,
    guardrails,
    hooks,
    hops,
    lists,
    load,
    loop,
    metrics,
    persistence,
    pipelines,
    replay,
    retrieval,
    soak,
    telemetry,
)
from bench.report import replace_section

RESULTS = Path(__file__).parent / "RESULTS.md"
MEASUREMENTS: Mapping[str, Callable[[], str]] = {
    "loop": loop.measure,
    "concurrency": concurrency.measure,
    "persistence": persistence.measure,
    "durable": durable.measure,
    "caching": caching.measure,
    "footprint": footprint.measure,
    "pipelines": pipelines.measure,
    "config": config.measure,
    "fuzz": fuzz.measure,
    "guardrails": guardrails.measure,
    "documents": documents.measure,
    "retrieval": retrieval.measure,
    "replay": replay.measure,
    "load": load.measure,
    "soak": soak.measure,
    "hops": hops.measure,
    "lists": lists.measure,
    "engine": engine.measure,
    "telemetry": telemetry.measure,
    "metrics": metrics.measure,
    "hooks": hooks.measure,
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(MEASUREMENTS)))
def main(names: tuple[str, ...]) -> None:
    """Run the measurements NAMES, or all."""
    for name in names or MEASUREMENTS:
        click.echo(f"measuring {name} …")
        text = f"`python -m bench {name}`, {date.today().isoformat()}, Python {platform.python_version()}.\n\n"
        text += MEASUREMENTS[name]()
        click.echo(text)
        replace_section(RESULTS, name, text)


if __name__ == "__main__":
    main()
