"""What a server or worker with `--metrics-port` tells Prometheus."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families as families

from fakes.served import Served


class Watched:
    """What a process tells Prometheus."""

    def __init__(self, address: str) -> None:
        self.address = address

    def sum(self, name: str, **labels: str) -> float | None:
        """The sum of a metric's samples with these labels; `None` if there is none, or the process does not answer."""
        try:
            with urllib.request.urlopen(self.address, timeout=10) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, OSError):
            return None
        samples = [one for family in families(text) for one in family.samples if one.name == name]
        found = [one.value for one in samples if labels.items() <= one.labels.items()]
        return sum(found) if found else None


def watched(server: Served) -> Watched:
    found = re.search(r"Metrics are on (\S+)\n", server.log)
    assert found is not None, server.log
    return Watched(found[1])
