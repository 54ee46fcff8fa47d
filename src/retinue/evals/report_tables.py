"""An evaluation's figures as tables of texts, for reports in any format, and as a report in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from ..display.terminal import clean
from .comparison import Difference, Figures, Pair, Share, Summary

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
