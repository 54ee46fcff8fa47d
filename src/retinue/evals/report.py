"""The report of an evaluation: tables of texts, in Markdown, and as one page of HTML with plots as SVG.

The page needs and may load nothing else. Questions, answers and traces are what strangers and models wrote: all of it
is escaped, and a content security policy forbids scripts and every request.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import NamedTuple

from ..display.run_tree import RunTree
from ..display.terminal import clean, put
from .comparison import Difference, Figures, Pair, Run, Share, Summary
from .questions import Question

SHARES: Mapping[str, str] = {
    "right": "right",
    "judged": "right by a model's verdict",
    "exact_match": "exact match",
    "contains": "contains an answer",
    "numeric": "number right",
    "said_not_stated": "unanswerable: says so",
    "said_not_stated_wrongly": "answerable: says it is not stated",
}
MEANS: Mapping[str, str] = {
    "f1": "F1",
    "evidence_found": "evidence found",
    "tool_accuracy": "tool accuracy",
    "steps": "steps",
    "requests": "requests",
    "input_tokens": "tokens in",
    "cached_tokens": "of these cached",
    "output_tokens": "tokens out",
    "cost": "cost",
    "seconds": "seconds",
}
QUALITY = ("f1", "evidence_found", "tool_accuracy")


class Table(NamedTuple):
    """A table of texts. `note` says how to read it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def build_tables(figures: Figures) -> Iterator[Table]:
    """Yield the tables of a report: what is right, what it costs, by tag, and the paired tests."""
    agents = figures.configurations
    shares = [name for name in SHARES if any(name in one.shares for one in agents)]
    means = [name for name in MEANS if any(name in one.means for one in agents)]
    quality = [name for name in means if name in QUALITY]
    costs = [name for name in means if name not in QUALITY]
    answers, costs_of = [], []
    for one in agents:
        asked = f"{one.questions}{f' ({one.failed} more have no answer)' if one.failed else ''}"
        answers.append([one.name, asked, *_format_shares(one, shares), *_format_means(one, quality)])
        found = one.means.get("unparseable")
        unparseable = f"{found.mean * found.of:.0f}" if found else ""
        stops = ", ".join(f"{reason} {count}" for reason, count in one.stop_reasons.items())
        costs_of.append([one.name, *_format_means(one, costs), unparseable, stops])
    head = [*(SHARES[name] for name in shares), *(MEANS[name] for name in quality)]
    note = "With 95% intervals: Wilson's for shares, the bootstrap's for means."
    yield Table("Answers", ["configuration", "questions", *head], answers, note)
    head = [*(MEANS[name] for name in costs), "unparseable replies", "stop reasons"]
    note = "Means over the questions, with 95% intervals. Unparseable replies are those of all questions."
    yield Table("What a question takes", ["configuration", *head], costs_of, note)
    if tags := figures.tags:
        rows = [
            [tag, f"{max(one.questions for one in its)}", *(_format_shares(one, ["right"])[0] for one in its)]
            for tag, its in tags.items()
        ]
        yield Table("Right by tag", ["tag", "questions", *(one.name for one in agents)], rows)
    if figures.pairs:
        yield _build_paired_table(figures.pairs)


def format_share(share: Share) -> str:
    """Return a share in percent, with its interval."""
    return f"{share.share:.1%} ({100 * share.low:.1f}–{100 * share.high:.1f})"


def _format_number(name: str, value: float) -> str:
    """Return an amount with as many digits as its kind needs."""
    form = ".3f" if name in QUALITY else ".4g" if name == "cost" else ",.0f" if "tokens" in name else ".2f"
    text = f"{value:{form}}"
    return text if text.strip("-0.,") else text.lstrip("-")  # no negative zero


def _format_shares(one: Summary, names: Sequence[str]) -> list[str]:
    return [format_share(one.shares[name]) if name in one.shares else "" for name in names]


def _format_means(one: Summary, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = one.means.get(name)
        numbers = [_format_number(name, value) for value in (found.mean, found.low, found.high)] if found else []
        yield f"{numbers[0]} ({numbers[1]}–{numbers[2]})" if numbers else ""


def _build_paired_table(pairs: Sequence[Pair]) -> Table:
    names = [name for name in MEANS if any(name in pair.amounts for pair in pairs)]
    rows = []
    for pair in pairs:
        counts = f"{pair.both} / {pair.only_first} / {pair.only_second} / {pair.neither}"
        mean, low, high = (f"{100 * value:+.1f}" for value in (pair.right.mean, pair.right.low, pair.right.high))
        right = f"{mean} points ({low} to {high}), {_format_chance(pair.right.p)}"
        amounts = [_format_difference(name, pair.amounts[name]) if name in pair.amounts else "" for name in names]
        rows.append([f"{pair.first} → {pair.second}", counts, right, *amounts])
    head = ["from → to", "right: both / only the first / only the second / neither", "right"]
    note = (
        "The second less the first, on the questions that both answered. Right: McNemar's exact test; amounts: the "
        f"permutation test of pairs. {len(pairs) * (1 + len(names))} tests, and no p is corrected for their number."
    )
    return Table("Paired tests", [*head, *(MEANS[name] for name in names)], rows, note)


def _format_chance(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _format_difference(name: str, found: Difference) -> str:
    numbers = [_format_number(name, value) for value in (found.mean, found.low, found.high)]
    signs = [text if text.startswith("-") or not text.strip("0.") else f"+{text}" for text in numbers]
    return f"{signs[0]} ({signs[1]} to {signs[2]}), {_format_chance(found.p)}"


def write_markdown_report(figures: Figures, about: Sequence[str]) -> str:
    """Return the report: the lines `about` the evaluation, and all tables."""
    parts = [f"# Evaluation on {_escape_cell(figures.dataset)}", "\n".join(f"- {_escape_cell(line)}" for line in about)]
    for table in build_tables(figures):
        parts += [f"## {table.title}", *([table.note] if table.note else [])]
        rows = [table.head, ["---"] * len(table.head), *table.rows]
        parts.append("\n".join(f"| {' | '.join(map(_escape_cell, row))} |" for row in rows))
    return "\n\n".join(parts) + "\n"


def _escape_cell(text: str) -> str:
    plain = " ".join(escape(clean(text), quote=False).split())
    return re.sub(r"[\\|\[`]", r"\\\g<0>", plain)


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito: told apart by all
_WIDTH, _LEFT, _ROW, _HIGH = 760, 230, 24, 300
_SCALE = _WIDTH - _LEFT - 70
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f4b; --bad: #b3261e; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; } td { white-space: nowrap; } .note { opacity: .75; font-size: .9em; }
svg { width: 100%; max-width: 760px; height: auto; display: block; }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; } details details { border: 0; margin-left: 1rem; }
summary { cursor: pointer; } dt { font-weight: 600; } dd { margin: 0 0 .4rem 1rem; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .7rem; font-size: .85em; }
.right { color: var(--good); } .wrong { color: var(--bad); } .key { font-weight: 600; }
"""
_HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
)
_AMOUNTS = {"seconds": "seconds a question", "output_tokens": "tokens written a question"}


def write_html_report(
    figures: Figures, about: Sequence[str], questions: Iterable[Question], runs: Mapping[str, Sequence[Run]]
) -> Iterator[str]:
    """Yield the page in pieces: the lines `about` the evaluation, tables, plots, and each run with its trace."""
    title = f"Evaluation on {figures.dataset}"
    heading = _escape_text(title)
    yield f"{_HEAD}<title>{heading}</title><style>{_STYLE}</style></head><body><h1>{heading}</h1>\n"
    yield f"<ul>{''.join(f'<li>{_escape_text(line)}</li>' for line in about)}</ul>\n"
    yield from map(_draw_table, build_tables(figures))
    yield f"<h2>Right, with intervals</h2>\n{draw_shares_plot(figures)}\n"
    for amount, label in _AMOUNTS.items():
        yield f"<h2>Right against {label}</h2>\n{trade_plot(figures, amount, label)}\n"
    yield "<h2>Runs</h2>\n"
    by_id = {name: {run.question.id: run for run in its} for name, its in runs.items()}
    for question in questions:
        yield _draw_question(question, {name: its[question.id] for name, its in by_id.items() if question.id in its})
    yield "</body></html>\n"


def _draw_table(table: Table) -> str:
    head = "".join(f"<th>{_escape_text(one)}</th>" for one in table.head)
    rows = "".join(f"<tr>{''.join(f'<td>{_escape_text(cell)}</td>' for cell in row)}</tr>\n" for row in table.rows)
    note = f'<p class="note">{_escape_text(table.note)}</p>' if table.note else ""
    return f'<h2>{_escape_text(table.title)}</h2>{note}<div class="wide"><table><tr>{head}</tr>\n{rows}</table></div>\n'


def _draw_question(question: Question, runs: Mapping[str, Run]) -> str:
    drawn = [(_draw_dot(at), name, run) for at, (name, run) in enumerate(runs.items())]
    signs = "".join(f" {dot}{_draw_verdict(run)}" for dot, _, run in drawn)
    facts = {
        "question": question.question,
        "gold": question.gold,
        "rivals": "; ".join(question.rivals),
        "evidence": "; ".join(question.evidence),
        "functions": ", ".join(str(one["name"]) for one in question.functions),
        "tags": ", ".join(question.tags),
    }
    short = question.question if len(question.question) <= 120 else f"{question.question[:120]} …"
    inside = "".join(_draw_run(*one) for one in drawn)
    return (
        f'<details><summary><span class="key">{_escape_text(question.id)}</span> {_escape_text(short)}{signs}</summary>'
        f"{_draw_facts(facts)}{inside}</details>\n"
    )


def _draw_run(dot: str, name: str, run: Run) -> str:
    marks = {SHARES.get(mark, mark): "yes" if value else "no" for mark, value in run.marks.shares.items()}
    marks |= {MEANS.get(mark, mark): f"{value:,.6g}" for mark, value in run.marks.amounts.items()}
    facts = {
        "answer": run.result.text or "(none)",
        "stop reason": " ".join(filter(None, (str(run.result.stop_reason), run.result.error))),
        "marks": ", ".join(f"{mark}: {value}" for mark, value in marks.items()),
    }
    trace = io.StringIO()  # as a terminal would show it, with the agents that it called
    RunTree(trace, partial(put, trace)).show_result(run.result)
    return (
        f'<details><summary>{dot} <span class="key">{_escape_text(name)}</span> '
        f"{_draw_verdict(run)} {_escape_text(run.result.text[:120])}</summary>{_draw_facts(facts)}"
        f"<pre>{_escape_text(trace.getvalue())}</pre></details>"
    )


def _draw_facts(facts: Mapping[str, str]) -> str:
    items = (f"<dt>{name}</dt><dd>{_escape_text(value)}</dd>" for name, value in facts.items() if value)
    return f"<dl>{''.join(items)}</dl>"


def _draw_dot(at: int) -> str:
    return f'<span style="color:{choose_colour(at)}">●</span>'


def _draw_verdict(run: Run) -> str:
    verdict = "right" if run.marks.right else "wrong"
    return f'<span class="{verdict}">{verdict}</span>'


def _escape_text(text: str) -> str:
    return escape(clean(text))


# ── plots ─────────────────────────────────────────────────────────────────────────────────────────


def draw_shares_plot(figures: Figures) -> str:
    """Draw the share that is right, of all questions and of each tag, with its interval: a row a configuration."""
    groups = {"all questions": figures.configurations, **figures.tags}
    drawn, top = [], 26
    for title, summaries in groups.items():
        drawn.append(_draw_svg_text(4, top, title, "font-weight='600'"))
        for at, one in enumerate(summaries):
            top += _ROW
            drawn.append(_draw_svg_text(16, top, f"{_shorten_name(one.name)} ({one.questions})"))
            if right := one.shares.get("right"):
                left, x, high = (_LEFT + value * _SCALE for value in (right.low, right.share, right.high))
                drawn.append(_draw_line(left, high, top - 4, top - 4, choose_colour(at), "stroke-width='3'"))
                drawn.append(_draw_circle(x, top - 4, choose_colour(at)))
                drawn.append(_draw_svg_text(_LEFT + _SCALE + 12, top, f"{right.share:.0%}"))
        top += _ROW + 8
    axis = []
    for part in _QUARTERS:
        x = _LEFT + part * _SCALE
        axis += [_draw_grid_line(x, x, 10, top - 16), _draw_svg_text(x - 10, top - 2, f"{part:.0%}")]
    return _draw_svg("How often the answer is right, with 95% intervals", top, "".join([*axis, *drawn]))


def trade_plot(figures: Figures, amount: str, label: str) -> str:
    """Draw each configuration's mean `amount` (to the right) against the share that is right (upwards)."""
    points = [(at, one) for at, one in enumerate(figures.configurations) if amount in one.means]
    most = _round_up(max((one.means[amount].high for _, one in points), default=1.0))
    drawn = []
    for part in _QUARTERS:
        y = 20 + (1 - part) * _HIGH
        drawn += [_draw_grid_line(_LEFT, _LEFT + _SCALE, y, y), _draw_svg_text(_LEFT - 46, y + 4, f"{part:.0%}")]
        drawn.append(_draw_svg_text(_LEFT + part * _SCALE - 8, _HIGH + 40, f"{most * part:,.4g}"))
    drawn.append(_draw_svg_text(_LEFT, _HIGH + 62, label))
    for at, one in points:
        mean, right, colour = one.means[amount], one.shares["right"], choose_colour(at)
        x, low, high = (_LEFT + value / most * _SCALE for value in (mean.mean, mean.low, mean.high))
        y, bottom, top = (20 + (1 - value) * _HIGH for value in (right.share, right.low, right.high))
        drawn += [_draw_line(low, high, y, y, colour), _draw_line(x, x, bottom, top, colour)]
        drawn += [_draw_circle(x, y, colour), _draw_svg_text(x + 8, y - 8, _shorten_name(one.name))]
    return _draw_svg(f"How often the answer is right against {label}, with 95% intervals", _HIGH + 72, "".join(drawn))


def choose_colour(at: int) -> str:
    """Return the colour of the configuration with this number."""
    return COLOURS[at % len(COLOURS)]


def _draw_line(x1: float, x2: float, y1: float, y2: float, ink: str, more: str = "stroke-width='2'") -> str:
    return f"<line x1='{x1:.1f}' x2='{x2:.1f}' y1='{y1:.1f}' y2='{y2:.1f}' stroke='{ink}' {more}/>"


def _draw_grid_line(x1: float, x2: float, y1: float, y2: float) -> str:
    return _draw_line(x1, x2, y1, y2, "currentColor", "stroke-opacity='0.15'")


def _draw_circle(x: float, y: float, ink: str) -> str:
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{ink}'/>"


def _draw_svg_text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(clean(text))}</text>"


def _draw_svg(title: str, height: float, inside: str) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height:.0f}' role='img' "
        f"font-family='sans-serif' font-size='12' fill='currentColor'><title>{escape(title)}</title>{inside}</svg>"
    )


def _shorten_name(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _round_up(value: float) -> float:
    """Return the next number with one digit that is easily divided by four."""
    if value <= 0:
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return float(next(step for step in (1, 2, 4, 5, 8, 10) if step * power >= value * 0.9999) * power)
