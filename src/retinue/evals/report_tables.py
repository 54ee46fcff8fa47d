"""An evaluation's figures as tables of texts, for reports in any format, and as a report in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from ..display.terminal import clean
from .comparison import Difference, Figures, Mean, Pair, Share, Summary

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
    names = "configuration", "questions"
    shares = _list_present_names([one.shares for one in figures.configurations], SHARES)
    means = _list_present_names([one.means for one in figures.configurations], MEANS)
    quality = [name for name in means if name in QUALITY]
    costs = [name for name in means if name not in QUALITY]
    yield Table(
        "Answers",
        [*names, *(SHARES[name] for name in shares), *(MEANS[name] for name in quality)],
        [
            [one.name, _format_question_count(one), *_format_cells(one, shares, quality)]
            for one in figures.configurations
        ],
        "With 95% intervals: Wilson's for shares, the bootstrap's for means.",
    )
    yield Table(
        "What a question takes",
        ["configuration", *(MEANS[name] for name in costs), "unparseable replies", "stop reasons"],
        [
            [one.name, *_format_cells(one, (), costs), _format_unparseable_count(one), _stop_reasons(one)]
            for one in figures.configurations
        ],
        "Means over the questions, with 95% intervals. Unparseable replies are those of all questions.",
    )
    if figures.tags:
        yield Table(
            "Right by tag", ["tag", "questions", *(one.name for one in figures.configurations)], _tag_rows(figures)
        )
    if figures.pairs:
        yield _build_paired_table(figures.pairs)


def format_share(share: Share) -> str:
    """Return a share in percent, with its interval."""
    return f"{share.share:.1%} ({100 * share.low:.1f}–{100 * share.high:.1f})"


def format_mean(name: str, mean: Mean | Difference) -> str:
    """Return a mean with its interval, with as many digits as its kind of amount needs."""
    return f"{_number(name, mean.mean)} ({_number(name, mean.low)}–{_number(name, mean.high)})"


def format_chance(p: float) -> str:
    """Return how likely a difference is chance."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _number(name: str, value: float) -> str:
    form = ".3f" if name in QUALITY else ".4g" if name == "cost" else ",.0f" if "tokens" in name else ".2f"
    text = f"{value:{form}}"
    return text if text.strip("-0.,") else text.lstrip("-")  # no negative zero


def _list_present_names(marks: Sequence[Mapping[str, object]], names: Mapping[str, str]) -> list[str]:
    return [name for name in names if any(name in one for one in marks)]


def _format_cells(one: Summary, shares: Sequence[str], means: Sequence[str]) -> Iterator[str]:
    yield from (format_share(one.shares[name]) if name in one.shares else "" for name in shares)
    yield from (format_mean(name, one.means[name]) if name in one.means else "" for name in means)


def _format_question_count(one: Summary) -> str:
    return f"{one.questions}{f' ({one.failed} more have no answer)' if one.failed else ''}"


def _format_unparseable_count(one: Summary) -> str:
    found = one.means.get("unparseable")
    return f"{found.mean * found.of:.0f}" if found else ""


def _stop_reasons(one: Summary) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in one.stop_reasons.items())


def _tag_rows(figures: Figures) -> list[list[str]]:
    return [
        [tag, f"{max(one.questions for one in its)}", *map(_format_right_share, its)]
        for tag, its in figures.tags.items()
    ]


def _format_right_share(one: Summary) -> str:
    return format_share(one.shares["right"]) if "right" in one.shares else ""


def _build_paired_table(pairs: Sequence[Pair]) -> Table:
    names = _list_present_names([pair.amounts for pair in pairs], MEANS)
    rows = [
        [
            f"{pair.first} → {pair.second}",
            f"{pair.both} / {pair.only_first} / {pair.only_second} / {pair.neither}",
            f"{100 * pair.right.mean:+.1f} points ({100 * pair.right.low:+.1f} to {100 * pair.right.high:+.1f}), "
            f"{format_chance(pair.right.p)}",
            *(_format_difference(name, pair.amounts[name]) if name in pair.amounts else "" for name in names),
        ]
        for pair in pairs
    ]
    return Table(
        "Paired tests",
        ["from → to", "right: both / only the first / only the second / neither", "right", *(MEANS[n] for n in names)],
        rows,
        "The second less the first, on the questions that both answered. Right: McNemar's exact test; amounts: the "
        "permutation test of pairs. "
        f"{len(pairs) * (1 + len(names))} tests, and no p is corrected for their number.",
    )


def _format_difference(name: str, found: Difference) -> str:
    numbers = [_number(name, value) for value in (found.mean, found.low, found.high)]
    signs = [text if text.startswith("-") or not text.strip("0.") else f"+{text}" for text in numbers]
    return f"{signs[0]} ({signs[1]} to {signs[2]}), {format_chance(found.p)}"


def write_markdown_report(figures: Figures, about: Sequence[str]) -> str:
    """Return the report: the lines `about` the evaluation, and all tables."""
    head = [f"# Evaluation on {_escape_cell(figures.dataset)}", "\n".join(f"- {_escape_cell(line)}" for line in about)]
    return "\n\n".join([*head, *map(_write_section, build_tables(figures))]) + "\n"


def _write_section(table: Table) -> str:
    note = f"\n\n{table.note}" if table.note else ""
    rows = [table.head, ["---"] * len(table.head), *table.rows]
    return f"## {table.title}{note}\n\n" + "\n".join(f"| {' | '.join(map(_escape_cell, row))} |" for row in rows)


def _escape_cell(text: str) -> str:
    plain = " ".join(escape(clean(text), quote=False).split())
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("[", "\\[").replace("`", "\\`")
