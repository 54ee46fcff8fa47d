"""What the tests of telemetry share: a collector, and agents that a script answers for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.otlp_collector import OtlpCollector
from retinue import telemetry


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    """A collector."""
    with OtlpCollector() as collector:
        yield collector


@pytest.fixture
def recorded(collector: OtlpCollector) -> Iterator[OtlpCollector]:
    """The collector to which this process tells of its runs."""
    telemetry.enable(collector.url)
    try:
        yield collector
    finally:
        telemetry.disable()
