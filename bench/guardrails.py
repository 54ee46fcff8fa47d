"""What the guardrails find and what they let through, on the half of the corpora on which nothing was tuned, and on
ordinary text: passages of Wikipedia, and this repository's own documentation."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retinue.guardrails.injection import find_injections
from retinue.guardrails.personal_data import find_personal_data
from retinue.guardrails.secrets import find_secrets

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data" / "guardrails"
Case = Mapping[str, Any]
Find = Callable[[str], Sequence[Any]]
FINDERS: Mapping[str, Find] = {"pii": find_personal_data, "secrets": find_secrets, "injections": find_injections}
_TITLES = {"pii": "Personal data", "secrets": "Secrets", "injections": "Injections in results"}
_NONE = "none"


def read_cases(name: str, half: str = "held") -> Iterator[Case]:
    """Yield the cases of a corpus that are in this half."""
    for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line.replace("\u00a6", ""))
        if case["half"] == half:
            yield case


@dataclass
class Figures:
    """What was found of each kind, what there is of it, and what was found where nothing is."""

    found: Counter[str] = field(default_factory=Counter)
    there: Counter[str] = field(default_factory=Counter)
    mistaken: int = 0
    clean: int = 0  # texts in which nothing is

    def add(self, name: str, case: Case) -> None:
        """Count a case of a corpus."""
        got = FINDERS[name](case["text"])
        if case["kind"] == _NONE:
            self.clean += 1
            self.mistaken += bool(got)
            return
        kind = case["kind"] if name != "injections" else _describe_attack(case)
        wanted = case.get("find", [""])
        texts = [case["text"][one.begin : one.end] for one in got] if "find" in case else [""] * bool(got)
        self.there[kind] += len(wanted)
        self.found[kind] += sum(one in texts for one in wanted)

    @property
    def precision(self) -> float:
        """The share of what was found that is there; of texts in which nothing is, each counts once."""
        found = self.found.total()
        return found / (found + self.mistaken) if found else 0.0


def _describe_attack(case: Case) -> str:
    if case["from"] == "agentdojo":
        return f"AgentDojo, {case['what'].removesuffix('Attack')}"
    return f"bastioncorpus, {case['kind']}"


def measure_corpus(name: str, half: str = "held") -> Figures:
    """Return the figures of a half of a corpus."""
    figures = Figures()
    for case in read_cases(name, half):
        figures.add(name, case)
    return figures


def _read_ordinary() -> Iterator[tuple[str, list[str]]]:
    lines = (ROOT / "data" / "hotpotqa" / "passages.jsonl").read_text(encoding="utf-8").splitlines()
    yield "passages of Wikipedia", [json.loads(line).get("text") or line for line in lines]
    files = sorted((ROOT / "docs").glob("**/*.md"))
    yield "paragraphs of the docs", [one for file in files for one in file.read_text(encoding="utf-8").split("\n\n")]


def measure() -> str:
    """Return the report."""
    pieces = ["Of each corpus, the half on which nothing was tuned.\n"]
    for name, title in _TITLES.items():
        figures = measure_corpus(name)
        there, found = figures.there.total(), figures.found.total()
        rows = [f"| {kind} | {figures.found[kind]} of {number} |" for kind, number in sorted(figures.there.items())]
        pieces += [
            f"\n{title}: precision {figures.precision:.3f}, recall {found / there:.3f}; something was found in "
            f"{figures.mistaken} of {figures.clean} texts in which nothing is.\n\n| kind | found |\n|---|---|\n",
            "\n".join([*rows, f"| all | {found} of {there} |"]),
            "\n",
        ]
    pieces.append(
        "\nOrdinary text, in which nearly nothing is:\n\n| text | of | personal data | secrets | injections |\n"
    )
    pieces.append("|---|---|---|---|---|\n")
    texts: list[str] = []
    for title, parts in _read_ordinary():
        texts += parts
        counts = " | ".join(str(sum(bool(find(one)) for one in parts)) for find in FINDERS.values())
        pieces.append(f"| {title} | {len(parts):,} | {counts} |\n")
    text = "\n".join(texts)[:200_000]
    speeds = []
    for find in FINDERS.values():
        began = time.process_time()
        find(text)
        speeds.append(f"{(time.process_time() - began) / len(text) * 1e9:,.0f}")
    pieces.append(f"\nCPU for each character of it, in nanoseconds: {' · '.join(speeds)}.\n")
    return "".join(pieces)
