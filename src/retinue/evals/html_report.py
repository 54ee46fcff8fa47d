"""The report of an evaluation as one page of HTML, which needs and may load nothing else.

Questions, answers and traces are what strangers and models wrote: all of it is escaped, and a content security policy
forbids scripts and every request.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape

from ..core.run_result import RunResult
from ..display.run_tree import RunTree
from ..display.terminal import clean, put
from .comparison import Figures, Run
from .plots import colour, shares_plot, trade_plot
from .questions import Question
from .report_tables import MEANS, SHARES, Table, tables

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


def html_report(
    figures: Figures, about: Sequence[str], questions: Iterable[Question], runs: Mapping[str, Sequence[Run]]
) -> Iterator[str]:
    """Yield the page in pieces: the lines `about` the evaluation, tables, plots, and each run with its trace."""
    title = f"Evaluation on {figures.dataset}"
    yield f"{_HEAD}<title>{_text(title)}</title><style>{_STYLE}</style></head><body><h1>{_text(title)}</h1>\n"
    yield f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in about)}</ul>\n"
    yield from map(_table, tables(figures))
    yield f"<h2>Right, with intervals</h2>\n{shares_plot(figures)}\n"
    for amount, label in _AMOUNTS.items():
        yield f"<h2>Right against {label}</h2>\n{trade_plot(figures, amount, label)}\n"
    yield "<h2>Runs</h2>\n"
    by_id = {name: {run.question.id: run for run in its} for name, its in runs.items()}
    for question in questions:
        yield _question(question, {name: its[question.id] for name, its in by_id.items() if question.id in its})
    yield "</body></html>\n"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(one)}</th>" for one in table.head)
    rows = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>\n" for row in table.rows)
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return f'<h2>{_text(table.title)}</h2>{note}<div class="wide"><table><tr>{head}</tr>\n{rows}</table></div>\n'


def _question(question: Question, runs: Mapping[str, Run]) -> str:
    signs = "".join(
        f' <span style="color:{colour(at)}">●</span>{_verdict(run.marks.right)}' for at, run in enumerate(runs.values())
    )
    facts = {
        "question": question.question,
        "gold": question.gold,
        "rivals": "; ".join(question.rivals),
        "evidence": "; ".join(question.evidence),
        "functions": ", ".join(str(one["name"]) for one in question.functions),
        "tags": ", ".join(question.tags),
    }
    inside = "".join(_run(name, run, colour(at)) for at, (name, run) in enumerate(runs.items()))
    short = question.question if len(question.question) <= 120 else f"{question.question[:120]} …"
    return (
        f'<details><summary><span class="key">{_text(question.id)}</span> {_text(short)}{signs}</summary>'
        f"{_list(facts)}{inside}</details>\n"
    )


def _run(name: str, run: Run, fill: str) -> str:
    marks = {SHARES.get(mark, mark): "yes" if value else "no" for mark, value in run.marks.shares.items()}
    marks |= {MEANS.get(mark, mark): f"{value:,.6g}" for mark, value in run.marks.amounts.items()}
    facts = {
        "answer": run.result.answer or "(none)",
        "stop reason": " ".join(filter(None, (str(run.result.stop_reason), run.result.error))),
        "marks": ", ".join(f"{mark}: {value}" for mark, value in marks.items()),
    }
    return (
        f'<details><summary><span style="color:{fill}">●</span> <span class="key">{_text(name)}</span> '
        f"{_verdict(run.marks.right)} {_text(run.result.answer[:120])}</summary>{_list(facts)}"
        f"<pre>{_text(trace_text(run.result))}</pre></details>"
    )


def trace_text(run: RunResult) -> str:
    """Return a run's trace as a terminal would show it, with those of the agents that it called in it."""
    out = io.StringIO()
    RunTree(out, partial(put, out)).show_result(run)
    return out.getvalue()


def _list(facts: Mapping[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{_text(value)}</dd>' for name, value in facts.items() if value)}</dl>"


def _verdict(right: bool) -> str:
    return '<span class="right">right</span>' if right else '<span class="wrong">wrong</span>'


def _text(text: str) -> str:
    return escape(clean(text))
