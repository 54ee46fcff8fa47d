"""The options that `retinue serve` and `retinue worker` have in common: how runs are driven, and what is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .option_types import COUNTED

if TYPE_CHECKING:
    from ..server.context import Options
    from ..server.log_output import LogOptions
    from ..server.metrics.process_watch import MetricsPort

_LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
MISSING = "serving needs the extra 'server': pip install 'retinue[server]'"
_OPTIONS = (
    click.option("--db", default="retinue.db", show_default=True, help="A file or a PostgreSQL URL."),
    click.option("--temporal", default="", metavar="HOST:PORT", help="Where Temporal is, if it tells workers of runs."),
    click.option("--run-ttl", type=click.IntRange(1), default=600, show_default=True, help="Maximum seconds per run."),
    click.option(
        "--human-ttl", type=click.IntRange(1), default=86_400, show_default=True, help="Seconds to wait for a person."
    ),
    click.option(
        "--retention", type=click.IntRange(0), default=0, help="Seconds to keep runs that ended.  [default: all]"
    ),
    click.option(
        "--chat-retention",
        type=click.IntRange(0),
        default=86_400,
        show_default=True,
        help="Seconds to keep those of chat completions without `store`; 0: as others.",
    ),
    click.option(
        "--thread-retention",
        type=click.IntRange(0),
        default=0,
        help="Seconds to keep threads and conversations without news.  [default: all]",
    ),
    click.option(
        "--audit-retention",
        type=click.IntRange(0),
        default=0,
        help="Seconds to keep entries of the audit log.  [default: all]",
    ),
    click.option(
        "--grace", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds for runs to finish."
    ),
    click.option("--runs-at-once", type=click.IntRange(1), default=200, show_default=True, help="Others are queued."),
    click.option("--limit-runs", type=click.IntRange(1), help="Active runs per key; others are queued."),
    click.option(
        "--tenant-runs", type=click.IntRange(1), metavar="N", help="Runs driven at once per tenant, anywhere."
    ),
    click.option(
        "--agent-runs",
        type=COUNTED,
        multiple=True,
        metavar="AGENT=N",
        help="Runs of an agent driven at once, anywhere.",
    ),
    click.option(
        "--model-runs",
        type=COUNTED,
        multiple=True,
        metavar="HOST:PORT=N",
        help="Runs of agents with a model at this address, or of this name, driven at once, anywhere.",
    ),
    click.option(
        "--tenant-bytes", type=click.IntRange(0), default=10_000_000_000, help="Bytes per tenant.  [default: 10 GB]"
    ),
    click.option(
        "--tenant-files", type=click.IntRange(0), default=100_000, show_default=True, help="Files per tenant."
    ),
    click.option(
        "--tenant-memory", type=click.IntRange(0), default=100_000_000, help="Bytes remembered.  [default: 100 MB]"
    ),
    click.option(
        "--tenant-stores", type=click.IntRange(0), default=10_000, show_default=True, help="Stores per tenant."
    ),
    click.option(
        "--image-host",
        "image_hosts",
        multiple=True,
        metavar="HOST:PORT",
        help="A private server with images; repeatable.",
    ),
    click.option(
        "--tool-host", "tool_hosts", multiple=True, metavar="HOST:PORT", help="A private server of registered tools."
    ),
    click.option(
        "--hosted-tools",
        default="file_search",
        show_default=True,
        metavar="NAMES",
        help="The hosted tools that runs may use, separated by commas: file_search, code_interpreter.",
    ),
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65_535),
        metavar="N",
        help="Serve metrics and probes there, to everybody; 0 picks a free port.  [default: none]",
    ),
    click.option(
        "--metrics-host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address of that port."
    ),
    click.option(
        "--log-level", type=click.Choice(_LEVELS), default="warning", show_default=True, help="Minimum level."
    ),
    click.option("--log-format", type=click.Choice(FORMATS), default="json", show_default=True, help="Log format."),
)


def driving_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def options_of(given: Mapping[str, Any], *, strict: bool = False) -> Options:
    """Return what the options say of runs and tenants. Raises `ModuleNotFoundError` without the extra 'server'."""
    from ..server.context import Options
    from ..store.tenant_view import Quota

    return Options(
        given["run_ttl"],
        given["human_ttl"],
        given["retention"],
        strict,
        hosted_tools=tuple(filter(None, (name.strip() for name in given["hosted_tools"].split(",")))),
        quota=Quota(given["tenant_bytes"], given["tenant_files"], given["tenant_stores"], given["tenant_memory"]),
        image_hosts=given["image_hosts"],
        tool_hosts=given["tool_hosts"],
        chat_retention=given["chat_retention"],
        thread_retention=given["thread_retention"],
        audit_retention=given["audit_retention"],
    )


def logging_of(given: Mapping[str, Any], access: Any = None) -> LogOptions:
    """Return what the options say of the log."""
    from ..server.log_output import LogOptions

    return LogOptions(given["log_level"], given["log_format"], access)


def metrics_of(given: Mapping[str, Any]) -> MetricsPort | None:
    """Return where metrics are served, if they are."""
    from ..server.metrics.process_watch import MetricsPort

    port = given["metrics_port"]
    return None if port is None else MetricsPort(given["metrics_host"], port, _metrics_served, given.get("hosts") or ())


def _metrics_served(address: str) -> None:
    click.echo(f"Metrics are on {address}")


def limits_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of runs that are driven at once by all processes, as `Serving` has them."""
    both = {name: dict(given[name]) for name in ("agent_runs", "model_runs")}
    return {"tenant_runs": given["tenant_runs"], **both}


def temporal_of(given: Mapping[str, Any], database: str) -> str:
    """Return the address of Temporal, or nothing. Raises `UsageError` if workers could not share the database."""
    if given["temporal"] and not database.startswith("postgresql"):
        raise UsageError("--temporal needs a database that servers and workers share: --db postgresql://USER@HOST/NAME")
    return str(given["temporal"])


def leave_out_prompt_states() -> None:
    """Keep no states of prompts in files, unless the environment says otherwise: what tenants write stays in the
    database.
    """
    from ..models.prompt_states import SWITCH

    os.environ.setdefault(SWITCH, "off")
