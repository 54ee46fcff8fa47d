"""`retinue serve`: serves what a file defines over OpenAI's API."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from .._internal.sync_bridge import limit_exit, run_to_completion
from ..config.price_file import use_prices
from ..errors import UsageError
from .driving_options import (
    FORMATS,
    MISSING,
    driving_options,
    leave_out_prompt_states,
    limits_of,
    logging_of,
    metrics_of,
    options_of,
    temporal_of,
)
from .garbage_collection import collect_seldom
from .option_types import PER_MINUTE
from .server_database import database_url

if TYPE_CHECKING:
    from ..server.agents.deployment import Deployment


@click.command("serve")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port; 0 picks a free one.  [default: 8000]")
@driving_options
@click.option("--api-key", "keys", multiple=True, metavar="KEY", help="A key that clients may use; may be repeated.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name of the server.")
@click.option("--cors", "origins", multiple=True, metavar="ORIGIN", help="An origin whose pages may use it.")
@click.option("--connections", type=click.IntRange(1), default=1_000, show_default=True, help="Per address.")
@click.option("--limit-requests", type=PER_MINUTE, metavar="N/min", help="Requests per key; ten reads count as one.")
@click.option("--limit-tokens", type=PER_MINUTE, metavar="N/min", help="Tokens per key.")
@click.option("--limit-queue", type=click.IntRange(0), help="Queued runs per key.")
@click.option("--limit-streams", type=click.IntRange(1), help="Open streams per key.")
@click.option(
    "--access-log",
    type=click.Choice(["off", *FORMATS]),
    default="off",
    show_default=True,
    help="One line per request.",
)
@click.option(
    "--dispatch",
    type=click.Choice(["local", "temporal"]),
    default="local",
    show_default=True,
    help="Drive runs here, or by workers.",
)
@click.option(
    "--drive",
    type=click.Choice(["auto", "yes", "no"]),
    default="auto",
    show_default=True,
    help="Drive runs here, too; auto: unless workers live.",
)
@click.option(
    "--evals", type=click.Path(exists=True, path_type=Path, file_okay=False), help="Reports that the studio shows."
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
        from ..limits.rate import NAMES, Bounds
        from ..server.process import Serving, serve
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    leave_out_prompt_states()
    use_prices(beside=file)
    port = given["port"] if given["port"] is not None else _port(file)
    _leave_own_address(given["host"], port)
    deployment = _deployment(file)
    database = database_url(given["db"])
    how = Serving(
        database=database,
        host=given["host"],
        port=port,
        keys=_keys(given["keys"]),
        hosts=given["hosts"],
        origins=given["origins"],
        grace=given["grace"],
        options=replace(options_of(given, strict=given["strict"]), evals=given["evals"]),
        bounds=Bounds(**{name: given[f"limit_{name}"] for name in NAMES}),
        at_once=given["runs_at_once"],
        connections=given["connections"],
        logging=logging_of(given, _form(given["access_log"])),
        metrics=metrics_of(given),
        temporal=_temporal(given, database),
        drive=_drive(given, database),
        **limits_of(given),
    )
    run_to_completion(serve(deployment, how, _ready, _made))
    limit_exit()
    return 0


def _leave_own_address(host: str, port: int) -> None:
    """Remove `OPENAI_BASE_URL` from the environment if it is the address to serve on, as it is for clients: the
    server's own models of the engine `openai` would ask the server itself."""
    own = urlsplit(os.environ.get("OPENAI_BASE_URL", ""))
    with suppress(ValueError):
        if port and (own.port or 80) == port and own.hostname in ("localhost", "127.0.0.1", "::1", "0.0.0.0", host):
            del os.environ["OPENAI_BASE_URL"]
            click.echo("OPENAI_BASE_URL is this server's own address, so its models do not use it", err=True)


def _temporal(given: Mapping[str, Any], database: str) -> str:
    if (given["dispatch"] == "temporal") != bool(given["temporal"]):
        raise UsageError("--dispatch temporal and --temporal HOST:PORT go together: workers then drive the runs")
    return temporal_of(given, database)


def _drive(given: Mapping[str, Any], database: str) -> Any:
    if given["drive"] == "no" and not database.startswith("postgresql"):
        raise UsageError("--drive no needs a database that workers share: --db postgresql://USER@HOST/NAME")
    return given["drive"]


def _form(said: str) -> Any:
    return None if said == "off" else said


def _ready(address: str) -> None:
    collect_seldom()
    click.echo(f"Retinue is ready on {address}")  # and flushes


def _made(key: str) -> None:
    click.echo(f"the key of this server, which cannot be shown again: Authorization: Bearer {key}", err=True)


def _deployment(file: Path | None) -> Deployment:
    from ..server.agents.deployment import Deployment

    if file is not None:
        return Deployment.load(file)
    from ..config.yaml_files import read_spec_from_environment

    return Deployment.of(read_spec_from_environment(os.environ))


def _port(file: Path | None) -> int:
    said = os.environ.get("port", "") if file is None else ""  # noqa: SIM112 - OPEA's own spelling
    return int(said) if said.isdigit() and int(said) < 65_536 else 8000


def _keys(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given keys and those in the environment."""
    keys = [key.strip() for key in (*given, *os.environ.get("RETINUE_API_KEYS", "").split(",")) if key.strip()]
    if any(not key.isascii() or not key.isprintable() or " " in key for key in keys):
        raise UsageError("an API key must consist of printable ASCII characters without spaces")
    return tuple(keys)
