"""A size of a fleet as text."""

from __future__ import annotations

from collections.abc import Iterator

from .capacity_figures import BUSY, Spread
from .fleet_size import LIMIT_USED, Demand, Size
from .workload import Fleet, Workload


def size_text(demand: Demand, load: Workload, fleet: Fleet, size: Size) -> str:
    """Return what is needed and what to expect, a line each."""
    return "\n".join(
        [*_asked(demand, load), "", *_needed(fleet, size), "", *_expected(load, size), "", *_verdict(size)]
    )


def _asked(demand: Demand, load: Workload) -> Iterator[str]:
    yield f"{demand.per_day:,.0f} runs a day of {load.mean_steps:.3g} steps"
    yield f"{_rate(demand.per_second)} runs a second at the peak, {demand.peak:g} times the average"


def _needed(fleet: Fleet, size: Size) -> Iterator[str]:
    used = size.figures.used
    yield "  needed at the peak"
    places = f"{used['places']:.0%} of {fleet.places:,} places each"
    yield _row("workers", f"{size.workers:,}", f"{used['workers']:.0%} of a core each, {places}")
    yield _row("servers", f"{size.servers:,}", f"{used['servers']:.0%} of a core each")
    work = f"{_rate(size.database_cores)} cores busy, {size.transactions:,.0f} transactions a second"
    yield _row("PostgreSQL", f"{size.databases:,}", f"{work}, up to {size.connections:,} connections")
    yield _row("disk", _bytes(size.bytes_per_day), "a day, with little text")
    at_once = f"{size.replies_at_once:,.0f} replies at once"
    yield _row(
        "model",
        "",
        f"{size.requests_per_minute:,.0f} requests and {_short(size.tokens_per_minute)} tokens a minute, {at_once}",
    )


def _expected(load: Workload, size: Size) -> Iterator[str]:
    figures = size.figures
    yield "  expected at the peak"
    yield _row("a run takes", *_seconds(figures.seconds))
    yield _row("and waits", *_seconds(figures.waits), "for a place")
    yield _row(
        "under way", f"{figures.under_way * size.slices:,.0f}", f"runs, {figures.queued * size.slices:,.0f} queued"
    )
    if figures.refused:
        yield _row("refused", f"{figures.refused:.1%}", "of requests to the model, at first")
    if figures.failed:
        yield _row("failed", f"{figures.failed / figures.offered:.1%}", "of runs, refused five times")
    if load.asks:
        yield _row("for people", f"{size.waiting:,.0f}", "runs wait, and use nothing but disk")


def _verdict(size: Size) -> Iterator[str]:
    for name, (wanted, most) in size.too_low.items():
        yield f"The model's endpoint is the bottleneck: {wanted:,.0f} {name} are wanted, and {most:,.0f} allowed."
        part = most * LIMIT_USED / wanted
        yield f"No number of workers helps. Have {wanted / LIMIT_USED:,.0f} allowed, or make {part:.0%} of the runs."
    if size.too_low:
        return
    if not size.enough:
        part = size.figures.per_second / size.figures.offered
        yield f"This fleet does not keep up: it ends {part:.0%} of what comes. The bottleneck: {size.next_limit}."
        return
    share = size.figures.used[size.next_limit]
    kind = "The bottleneck" if share >= BUSY else "No bottleneck; the next one would be"
    yield f"{kind}: {size.next_limit} ({share:.0%} used)."
    if size.databases > 1:
        yield f"One PostgreSQL is too small: split tenants among {size.databases}, each with its share of the fleet."


def _row(name: str, value: str, *rest: str) -> str:
    return f"    {name:<12}{value:>9}  {' '.join(rest)}".rstrip()


def _seconds(of: Spread) -> tuple[str, str]:
    return f"{of.mean:,.2f} s", f"(95 % within {of.p95:,.2f} s, 99 % within {of.p99:,.2f} s)"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _short(value: float) -> str:
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:,.3g} {name}"
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if value >= size:
            return f"{value / size:,.3g} {name}"
    return f"{value / 1e3:,.3g} kB"
