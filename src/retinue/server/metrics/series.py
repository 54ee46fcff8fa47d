"""What a registry holds, for the formats: without the time at which each series was made."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector


class Series(Collector):
    """The metrics of a registry. Each counter and histogram has a sample `…_created` there, which doubles the series
    of small ones, and says no more than `process_start_time_seconds` does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        for metric in self._registry.collect():
            created = f"{metric.name}_created"
            metric.samples = [sample for sample in metric.samples if sample.name != created]
            yield metric
