"""A tool with an effect that can be counted: each call leaves a line in a ledger beside this file."""

from __future__ import annotations

from pathlib import Path


def book(place: str, people: int) -> str:
    """Books a table."""
    with Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(f"{people} at {place}\n")
    return f"{place} is booked for {people}"
