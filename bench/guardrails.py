"""What the guardrails find and what they let through, on the half of the corpora on which nothing was tuned."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from retinue.guardrails.personal_data import find_personal_data

DATA = Path(__file__).parent.parent / "tests" / "data" / "guardrails"
Case = Mapping[str, Any]


def read_cases(name: str, half: str = "held") -> Iterator[Case]:
    """Yield the cases of a corpus that are in this half."""
    for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line.replace("\u00a6", ""))
        if case["half"] == half:
            yield case


def find_mistakes(
    cases: Iterable[Case], find: Callable[[str], Sequence[Any]]
) -> Iterator[tuple[Case, list[str], list[str]]]:
    for case in cases:
        got = [case["text"][one.begin : one.end] for one in find(case["text"])]
        yield case, [one for one in case["find"] if one not in got], [one for one in got if one not in case["find"]]


if __name__ == "__main__":
    name = sys.argv[1]
    half = sys.argv[2]

    try:
        from retinue.guardrails.secrets import find_secrets
    except ImportError:
        find_secrets = None
    f = find_personal_data if name == "pii" else find_secrets
    tally = defaultdict(lambda: [0, 0, 0])
    for case, missed, extra in find_mistakes(read_cases(name, half), f):
        t = tally[case["kind"]]
        t[0] += len(case["find"])
        t[1] += len(missed)
        t[2] += len(extra)
        if (missed or extra) and half == "tuned" and len(sys.argv) > 3:
            print(case["kind"], repr(case["text"][:140]), "MISSED", missed, "EXTRA", extra)
    for k, v in sorted(tally.items()):
        print(k, v)
