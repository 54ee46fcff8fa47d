"""OpenTelemetry's standard variables: where spans and metrics go, how often and with what, and which traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.util.re import parse_env_headers

from .._internal.redaction import redact, register_secret, register_url_secrets
from ..core.run_context import TraceParent
from ..errors import UsageError

_PREFIX = "OTEL_EXPORTER_OTLP_"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_DEFAULT = "http://localhost:4318"
_TRUE = ("true", "1", "span_only", "span_and_event")  # the last two are the words of newer conventions
Sampler = Callable[[TraceParent], bool]
_VARIABLE = "OTEL_TRACES_SAMPLER"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a signal is sent: `headers` are further ones, `seconds` the time limit of a request, `zipped` whether its
    body is compressed. `authority`, `certificate` and `key` are files for TLS."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 10.0
    zipped: bool = False
    authority: str = ""
    certificate: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often spans and metrics are sent, in seconds, how many spans in one request, and how many may wait."""

    delay: float = 1.0
    metrics: float = 60.0
    batch: int = 512
    most: int = 20_000

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Pace:
        """Return what the environment says. Raises `UsageError`."""
        return cls(
            _read_number(env, "OTEL_BSP_SCHEDULE_DELAY", 1_000) / 1e3,
            _read_number(env, "OTEL_METRIC_EXPORT_INTERVAL", 60_000) / 1e3,
            int(_read_number(env, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
            int(_read_number(env, "OTEL_BSP_MAX_QUEUE_SIZE", 20_000)),
        )


def should_record_content(env: Mapping[str, str]) -> bool:
    """Whether spans are to have the texts of people, models and tools."""
    return env.get(CONTENT, "").strip().lower() in _TRUE


def read_endpoint(env: Mapping[str, str], signal: str, base: str = "") -> Endpoint | None:
    """Return where a signal (`TRACES`, `METRICS`) is sent; `None` if it is not. `base` is an address that counts
    instead of the environment's. Raises `UsageError` for values that are none."""
    if env.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return None
    if (protocol := _read_variable(env, signal, "PROTOCOL")) not in ("", "http/protobuf"):
        raise UsageError(f"{_PREFIX}PROTOCOL is {protocol[:40]!r}; Retinue sends http/protobuf, which most collectors "
                         "take at port 4318")  # fmt: skip
    own = "" if base else env.get(f"{_PREFIX}{signal}_ENDPOINT", "").strip()
    general = base or env.get(f"{_PREFIX}ENDPOINT", "").strip()
    if not own and not general:
        return None
    register_url_secrets(own or general)
    parts = urlsplit(own or general)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        shown = redact(own or general)[:200]
        raise UsageError(f"{shown!r} is no address for telemetry; want one such as {_DEFAULT}")
    url = own or urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/v1/{signal.lower()}"))
    headers = dict(parse_env_headers(_read_variable(env, signal, "HEADERS"), liberal=True))
    register_secret(*headers.values(), *(value.partition(" ")[2] for value in headers.values()))
    return Endpoint(
        url,
        headers,
        _read_number(env, f"{_PREFIX}TIMEOUT", 10_000) / 1e3,
        _read_variable(env, signal, "COMPRESSION") == "gzip",
        *(_read_variable(env, signal, name) for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")),
    )


def _read_variable(env: Mapping[str, str], signal: str, name: str) -> str:
    return (env.get(f"{_PREFIX}{signal}_{name}") or env.get(f"{_PREFIX}{name}", "")).strip()


def _read_number(env: Mapping[str, str], name: str, usual: float) -> float:
    said = env.get(name, "").strip()
    try:
        number = float(said) if said else usual
    except ValueError:
        number = 0
    if not 0 < number < 1e12:
        raise UsageError(f"{name} is {said[:40]!r}; want a number above 0")
    return number


def read_sampler(env: Mapping[str, str]) -> Sampler:
    """Return the function that says whether a trace is recorded, given the caller's span. Raises `UsageError`."""
    said = env.get(_VARIABLE, "").strip().lower() or "parentbased_always_on"
    kind = said.removeprefix("parentbased_")
    if kind not in ("always_on", "always_off", "traceidratio"):
        raise UsageError(
            f"{_VARIABLE} is {said[:40]!r}; want always_on, always_off, traceidratio, or one of these "
            "after 'parentbased_'"
        )
    share = _read_share(env) if kind == "traceidratio" else float(kind == "always_on")
    limit = round(share * 2**64)

    def recorded(parent: TraceParent) -> bool:
        if parent.span_id and said != kind:  # the caller has decided
            return parent.sampled
        return int.from_bytes(parent.trace_id[8:]) < limit

    return recorded


def _read_share(env: Mapping[str, str]) -> float:
    said = env.get(f"{_VARIABLE}_ARG", "").strip() or "1"
    try:
        share = float(said)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise UsageError(f"{_VARIABLE}_ARG is {said[:40]!r}; want a number from 0 to 1")
    return share
