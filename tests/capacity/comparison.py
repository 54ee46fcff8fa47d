"""What was predicted beside what was measured, as a table and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from html import escape

from retinue.cluster.capacity.capacity_figures import Figures
from retinue.cluster.capacity.process_costs import Cost, Costs

from .rounds import Round

BUSY = 0.15  # cores of other programs, from which on the measurement says little
_WIDTH, _LEFT, _ROW = 720, 250, 26
_SCALE = _WIDTH - _LEFT - 60
_PREDICTED, _MEASURED = "#56b4e9", "#d55e00"


@dataclass(frozen=True, slots=True)
class Compared:
    """One load, predicted and measured."""

    name: str
    predicted: Figures
    measured: Round

    @property
    def errors(self) -> tuple[float, float]:
        """By which shares throughput and time were predicted wrongly."""
        throughput = self.predicted.per_second / self.measured.per_second - 1
        return throughput, self.predicted.seconds.mean / self.measured.seconds.mean - 1


def table(found: Sequence[Compared]) -> str:
    """Return a row for each load, and what follows."""
    heads = ("three workers", "runs/s", "measured", "error", "seconds a run", "measured", "error", "what is used most")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for one in found:
        predicted, measured, (throughput, time) = one.predicted, one.measured, one.errors
        most = max(predicted.used, key=lambda name: predicted.used[name])
        lines.append(
            f"| {one.name} | {predicted.per_second:.2f} | {measured.per_second:.2f} | {throughput:+.0%} "
            f"| {predicted.seconds.mean:.2f} | {measured.seconds.mean:.2f} | {time:+.0%} "
            f"| {most} ({predicted.used[most]:.0%}) |"
        )
    return "\n".join([*lines, "", *_notes(found), ""])


def _notes(found: Sequence[Compared]) -> Iterable[str]:
    worst = max(abs(error) for one in found for error in one.errors)
    yield f"The largest error is {worst:.0%}."
    refused = [one for one in found if one.predicted.failed or one.measured.failed]
    for one in refused:
        share = one.predicted.failed / (one.predicted.failed + one.predicted.per_second)
        seen = one.measured.failed / (one.measured.failed + one.measured.per_second)
        yield f"Runs that were refused five times, under {one.name}: predicted {share:.1%}, measured {seen:.1%}."
    others = max(one.measured.others for one in found)
    if others > BUSY:
        yield f"Other programs took up to {others:.2f} cores meanwhile, of which the model knows nothing."


def costs_table(costs: Costs) -> str:
    """Return what each kind of process takes."""
    lines = ["| CPU | a run | each step | idle |", "|---|---|---|---|"]
    for field in fields(costs):
        cost = getattr(costs, field.name)
        if isinstance(cost, Cost):
            lines.append(
                f"| {field.name} | {cost.run * 1e3:.1f} ms | {cost.step * 1e3:.1f} ms | {cost.idle:.1%} of a core |"
            )
    waits = (costs.dispatch_seconds * 1e3, costs.commit_seconds * 1e3)
    lines += [
        "",
        f"A run waits {waits[0]:.0f} ms for messages between processes, and {waits[1]:.1f} ms for each commit.",
        f"The database has {costs.commits_run:.0f} transactions a run and {costs.commits_step:.1f} a step.",
        f"It grows by {costs.bytes_run / 1e3:.1f} kB a run and {costs.bytes_step / 1e3:.1f} kB a step.",
        "",
    ]
    return "\n".join(lines)


def picture(found: Sequence[Compared]) -> str:
    """Draw throughput and time, predicted above measured, for each load."""
    drawn, top = [], 20
    for title, kind in (("runs a second", 0), ("seconds a run", 1)):
        drawn.append(_text(4, top, title, "font-weight='600'"))
        pairs = [_pair(one)[kind] for one in found]
        most = max(max(pair) for pair in pairs)
        for one, pair in zip(found, pairs, strict=True):
            top += _ROW
            drawn.append(_text(16, top, one.name))
            for at, (value, fill) in enumerate(zip(pair, (_PREDICTED, _MEASURED), strict=True)):
                drawn.append(_bar(top - 12 + at * 9, value / most, value, fill))
        top += _ROW + 14
    drawn.append(_text(16, top, "predicted", f"fill='{_PREDICTED}'"))
    drawn.append(_text(96, top, "measured", f"fill='{_MEASURED}'"))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {top + 12}' role='img' "
        f"font-family='sans-serif' font-size='12'><title>Predicted and measured</title>"
        f"<rect width='100%' height='100%' fill='white'/>"
        f"{''.join(drawn)}</svg>\n"
    )


def _pair(one: Compared) -> tuple[tuple[float, float], tuple[float, float]]:
    predicted, measured = one.predicted, one.measured
    return (predicted.per_second, measured.per_second), (predicted.seconds.mean, measured.seconds.mean)


def _bar(top: float, part: float, value: float, fill: str) -> str:
    width = part * _SCALE
    label = f"<text x='{_LEFT + width + 6:.1f}' y='{top + 8}' font-size='10'>{value:.2f}</text>"
    return f"<rect x='{_LEFT}' y='{top}' width='{width:.1f}' height='8' fill='{fill}'/>{label}"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text x='{x}' y='{y}' {style}>{escape(text)}</text>"
