"""The class of an average recommendation."""

from __future__ import annotations

# Each class is the nearest whole number; half-way counts as the better one.
BANDS = ((1.5, "Strong Buy"), (2.5, "Buy"), (3.5, "Hold"), (4.5, "Underperform"), (5.0, "Sell"))


def classify(average: float) -> str:
    """Return the class of an average between 1 and 5."""
    if not 1 <= average <= 5:
        raise ValueError(f"an average recommendation is between 1 and 5, not {average}")
    return next(name for end, name in BANDS if average <= end)
