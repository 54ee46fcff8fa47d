"""`retinue serve`: serves what a file defines over OpenAI's API."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._internal.sync_bridge import run_to_completion
from ..errors import UsageError
from .option_types import PER_MINUTE
from .server_database import database_url

if TYPE_CHECKING:
    from ..server.deployment import Deployment

_GARBAGE = 10_000  # new objects before a collection: runs under way have thousands that live on, and few are cycles
_LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("text", "json")
_MISSING = "serving needs the extra 'server': pip install 'retinue[server]'"


@click.command("serve")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port; 0 picks a free one.  [default: 8000]")
@click.option("--db", default="retinue.db", show_default=True, help="A file or a PostgreSQL URL.")
@click.option("--api-key", "keys", multiple=True, metavar="KEY", help="A key that clients may use; may be repeated.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name of the server.")
@click.option("--cors", "origins", multiple=True, metavar="ORIGIN", help="An origin whose pages may use it.")
@click.option("--run-ttl", type=click.IntRange(1), default=600, show_default=True, help="Maximum seconds per run.")
@click.option(
    "--human-ttl", type=click.IntRange(1), default=86_400, show_default=True, help="Seconds to wait for a person."
)
@click.option("--retention", type=click.IntRange(0), default=0, help="Seconds to keep runs that ended.  [default: all]")
@click.option("--grace", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds for runs to finish.")
@click.option("--runs-at-once", type=click.IntRange(1), default=200, show_default=True, help="Others are queued.")
@click.option("--connections", type=click.IntRange(1), default=1_000, show_default=True, help="Per address.")
@click.option("--limit-requests", type=PER_MINUTE, metavar="N/min", help="Requests per key; ten reads count as one.")
@click.option("--limit-tokens", type=PER_MINUTE, metavar="N/min", help="Tokens per key.")
@click.option("--limit-runs", type=click.IntRange(1), help="Active runs per key; others are queued.")
@click.option("--limit-queue", type=click.IntRange(0), help="Queued runs per key.")
@click.option("--limit-streams", type=click.IntRange(1), help="Open streams per key.")
@click.option(
    "--tenant-bytes", type=click.IntRange(0), default=10_000_000_000, help="Bytes per tenant.  [default: 10 GB]"
)
@click.option("--tenant-files", type=click.IntRange(0), default=100_000, show_default=True, help="Files per tenant.")
@click.option(
    "--tenant-memory", type=click.IntRange(0), default=100_000_000, help="Bytes remembered.  [default: 100 MB]"
)
@click.option("--tenant-stores", type=click.IntRange(0), default=10_000, show_default=True, help="Stores per tenant.")
@click.option(
    "--image-host", "image_hosts", multiple=True, metavar="HOST:PORT", help="A private server with images; repeatable."
)
@click.option(
    "--tool-host", "tool_hosts", multiple=True, metavar="HOST:PORT", help="A private server of registered tools."
)
@click.option(
    "--hosted-tools",
    default="file_search",
    show_default=True,
    metavar="NAMES",
    help="The hosted tools that runs may use, separated by commas: file_search, code_interpreter.",
)
@click.option("--log-level", type=click.Choice(_LEVELS), default="warning", show_default=True, help="Minimum level.")
@click.option("--log-format", type=click.Choice(_FORMATS), default="json", show_default=True, help="Log format.")
@click.option(
    "--access-log",
    type=click.Choice(["off", *_FORMATS]),
    default="off",
    show_default=True,
    help="One line per request.",
)
@click.option("--strict", is_flag=True, help="Refuse unknown parameters.")
def command(file: Path | None, **given: Any) -> int:
    """Serve the agents and pipelines of FILE as models to OpenAI clients: chat completions, responses and assistants.

    Keys may also be in RETINUE_API_KEYS, separated by commas. If there are none at all, one is made and shown. Without
    FILE, the environment describes an agent as in OPEA (strategy, llm_endpoint_url, model, tools, ...).
    """
    gc.disable()  # until ready: starting allocates much and frees nothing
    try:
        return _serve(file, given)
    finally:
        gc.enable()


def _serve(file: Path | None, given: Mapping[str, Any]) -> int:
    try:
        from ..server.context import Options
        from ..server.log_output import LogOptions
        from ..server.middleware.usage_limits import NAMES, Bounds
        from ..server.process import Serving, serve
        from ..store.tenant_view import Quota
    except ModuleNotFoundError as error:
        raise UsageError(_MISSING) from error
    deployment = _deployment(file)
    port = given["port"] if given["port"] is not None else _port(file)
    how = Serving(
        database=database_url(given["db"]),
        host=given["host"],
        port=port,
        keys=_keys(given["keys"]),
        hosts=given["hosts"],
        origins=given["origins"],
        grace=given["grace"],
        options=Options(
            given["run_ttl"],
            given["human_ttl"],
            given["retention"],
            given["strict"],
            hosted_tools=tuple(filter(None, (name.strip() for name in given["hosted_tools"].split(",")))),
            quota=Quota(given["tenant_bytes"], given["tenant_files"], given["tenant_stores"], given["tenant_memory"]),
            image_hosts=given["image_hosts"],
            tool_hosts=given["tool_hosts"],
        ),
        bounds=Bounds(**{name: given[f"limit_{name}"] for name in NAMES}),
        at_once=given["runs_at_once"],
        connections=given["connections"],
        logging=LogOptions(given["log_level"], given["log_format"], _form(given["access_log"])),
    )
    run_to_completion(serve(deployment, how, _ready, _made))
    return 0


def _form(said: str) -> Any:
    return None if said == "off" else said


def _ready(address: str) -> None:
    gc.freeze()  # objects created so far stay, so collections may skip them
    gc.set_threshold(_GARBAGE)
    gc.enable()
    click.echo(f"Retinue is ready on {address}")  # and flushes


def _made(key: str) -> None:
    click.echo(f"the key of this server, which cannot be shown again: Authorization: Bearer {key}", err=True)


def _deployment(file: Path | None) -> Deployment:
    from ..server.deployment import Deployment

    if file is not None:
        return Deployment.load(file)
    from ..config.opea import spec_from_environment

    return Deployment.of(spec_from_environment(os.environ))


def _port(file: Path | None) -> int:
    said = os.environ.get("port", "") if file is None else ""  # noqa: SIM112 - OPEA's own spelling
    return int(said) if said.isdigit() and int(said) < 65_536 else 8000


def _keys(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given keys and those in the environment."""
    keys = [key.strip() for key in (*given, *os.environ.get("RETINUE_API_KEYS", "").split(",")) if key.strip()]
    if any(not key.isascii() or not key.isprintable() or " " in key for key in keys):
        raise UsageError("an API key must consist of printable ASCII characters without spaces")
    return tuple(keys)
