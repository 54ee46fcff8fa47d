"""Telemetry by OpenTelemetry: spans and metrics of runs, sent over OTLP. It is off until `enable` is called, or the
environment of a `retinue` command names an endpoint. Needs `retinue[telemetry]`."""

from typing import TYPE_CHECKING

from .._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from .activation import disable as disable, enable as enable, flush as flush

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
