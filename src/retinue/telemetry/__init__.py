"""Telemetry by OpenTelemetry: spans and metrics of runs, sent over OTLP. It is off until `enable` is called, or the
environment of a `retinue` command names an endpoint. Needs `retinue[telemetry]`, which is imported only then."""

from .activation import disable, enable, flush

__all__ = ["disable", "enable", "flush"]
