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
_SAMPLER = "OTEL_TRACES_SAMPLER"
_TRUE = ("true", "1", "span_only", "span_and_event")  # the last two are the words of newer conventions
Sampler = Callable[[TraceParent], bool]


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

        def read(name: str, usual: float) -> float:
            return _parse_number(name, env.get(name), usual)

        return cls(
            read("OTEL_BSP_SCHEDULE_DELAY", 1_000) / 1e3,
            read("OTEL_METRIC_EXPORT_INTERVAL", 60_000) / 1e3,
            int(read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
            int(read("OTEL_BSP_MAX_QUEUE_SIZE", 20_000)),
        )


def should_record_content(env: Mapping[str, str]) -> bool:
    """Whether spans are to have the texts of people, models and tools."""
    return env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower() in _TRUE


def read_endpoint(env: Mapping[str, str], signal: str, base: str = "") -> Endpoint | None:
    """Return where a signal (`TRACES`, `METRICS`) is sent; `None` if it is not. `base` is an address that counts
    instead of the environment's. Raises `UsageError` for values that are none."""

    def read(name: str) -> str:
        return (env.get(f"{_PREFIX}{signal}_{name}") or env.get(f"{_PREFIX}{name}", "")).strip()

    if env.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return None
    if (protocol := read("PROTOCOL")) not in ("", "http/protobuf"):
        raise UsageError(f"{_PREFIX}PROTOCOL is {protocol[:40]!r}; Retinue sends http/protobuf, which most collectors "
                         "take at port 4318")  # fmt: skip
    own = "" if base else env.get(f"{_PREFIX}{signal}_ENDPOINT", "").strip()
    given = own or base or env.get(f"{_PREFIX}ENDPOINT", "").strip()
    if not given:
        return None
    register_url_secrets(given)
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        shown = redact(given)[:200]
        raise UsageError(f"{shown!r} is no address for telemetry; want one such as http://localhost:4318")
    headers = dict(parse_env_headers(read("HEADERS"), liberal=True))
    register_secret(*headers.values(), *(value.partition(" ")[2] for value in headers.values()))
    return Endpoint(
        own or urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/v1/{signal.lower()}")),
        headers,
        _parse_number(f"{_PREFIX}TIMEOUT", read("TIMEOUT"), 10_000) / 1e3,
        read("COMPRESSION") == "gzip",
        *map(read, ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")),
    )


def _parse_number(name: str, said: str | None, usual: float) -> float:
    """Return the number that the variable `name` says, or the usual one. Raises `UsageError` unless it is above 0."""
    said = (said or "").strip()
    try:
        number = float(said or usual)
    except ValueError:
        number = 0
    if not 0 < number < 1e12:
        raise UsageError(f"{name} is {said[:40]!r}; want a number above 0")
    return number


def read_sampler(env: Mapping[str, str]) -> Sampler:
    """Return the function that says whether a trace is recorded, given the caller's span. Raises `UsageError`."""
    said = env.get(_SAMPLER, "").strip().lower() or "parentbased_always_on"
    kind = said.removeprefix("parentbased_")
    if kind not in ("always_on", "always_off", "traceidratio"):
        raise UsageError(
            f"{_SAMPLER} is {said[:40]!r}; want always_on, always_off, traceidratio, or one of these "
            "after 'parentbased_'"
        )
    share, said_share = float(kind == "always_on"), env.get(f"{_SAMPLER}_ARG", "").strip()
    if kind == "traceidratio":
        try:
            share = float(said_share or 1)
        except ValueError:
            share = -1
        if not 0 <= share <= 1:
            raise UsageError(f"{_SAMPLER}_ARG is {said_share[:40]!r}; want a number from 0 to 1")

    def recorded(parent: TraceParent) -> bool:
        if parent.span_id and said != kind:  # the caller has decided
            return parent.sampled
        return int.from_bytes(parent.trace_id[8:]) < round(share * 2**64)

    return recorded
