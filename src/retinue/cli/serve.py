"""`retinue serve` and `retinue worker`: serve what a file defines over OpenAI's API, and drive its runs."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from .._internal.sync_bridge import limit_exit, run_to_completion
from ..config.agent_code import Target
from ..config.price_file import use_prices
from ..errors import UsageError
from .option_types import AGENTS, COUNTED, FOLDER, PER_MINUTE
from .reloading import is_reloaded, serve_reloading

if TYPE_CHECKING:
    from ..server.process import Serving

MISSING = "serving needs the extra 'server': pip install 'retinue[server]'"
_BRIEF = 2.0  # seconds for runs to finish before a restart in development
_FORMATS, _LEVELS = ("text", "json"), ("debug", "info", "warning", "error")
_ANY, _SOME = click.IntRange(0), click.IntRange(1)
option, repeated = partial(click.option, show_default=True), partial(click.option, multiple=True)

_DRIVING_OPTIONS = (
    option("--db", default="retinue.db", help="A file or a PostgreSQL URL."),
    click.option("--temporal", default="", metavar="HOST:PORT", help="Where Temporal is, if it tells workers of runs."),
    option("--run-ttl", type=_SOME, default=600, help="Maximum seconds per run."),
    option("--human-ttl", type=_SOME, default=86_400, help="Seconds to wait for a person."),
    click.option("--retention", type=_ANY, default=0, help="Seconds to keep runs that ended.  [default: all]"),
    option(
        "--chat-retention",
        type=_ANY,
        default=86_400,
        help="Seconds to keep those of chat completions without `store`; 0: as others.",
    ),
    click.option(
        "--thread-retention",
        type=_ANY,
        default=0,
        help="Seconds to keep threads and conversations without news.  [default: all]",
    ),
    click.option(
        "--audit-retention", type=_ANY, default=0, help="Seconds to keep entries of the audit log.  [default: all]"
    ),
    option("--grace", type=click.FloatRange(0), default=10.0, help="Seconds for runs to finish."),
    option("--runs-at-once", type=_SOME, default=200, help="Others are queued."),
    click.option("--limit-runs", type=_SOME, help="Active runs per key; others are queued."),
    click.option("--tenant-runs", type=_SOME, metavar="N", help="Runs driven at once per tenant, anywhere."),
    repeated("--agent-runs", type=COUNTED, metavar="AGENT=N", help="Runs of an agent driven at once, anywhere."),
    repeated(
        "--model-runs",
        type=COUNTED,
        metavar="HOST:PORT=N",
        help="Runs of agents with a model at this address, or of this name, driven at once, anywhere.",
    ),
    click.option("--tenant-bytes", type=_ANY, default=10_000_000_000, help="Bytes per tenant.  [default: 10 GB]"),
    option("--tenant-files", type=_ANY, default=100_000, help="Files per tenant."),
    click.option("--tenant-memory", type=_ANY, default=100_000_000, help="Bytes remembered.  [default: 100 MB]"),
    option("--tenant-stores", type=_ANY, default=10_000, help="Stores per tenant."),
    repeated("--image-host", "image_hosts", metavar="HOST:PORT", help="A private server with images; repeatable."),
    repeated("--tool-host", "tool_hosts", metavar="HOST:PORT", help="A private server of registered tools."),
    option(
        "--hosted-tools",
        default="file_search",
        metavar="NAMES",
        help="The hosted tools that runs may use, separated by commas: file_search, code_interpreter.",
    ),
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65_535),
        metavar="N",
        help="Serve metrics and probes there, to everybody; 0 picks a free port.  [default: none]",
    ),
    option("--metrics-host", default="127.0.0.1", metavar="HOST", help="The address of that port."),
    option(
        "--log-level",
        type=click.Choice(("debug", "info", "warning", "error")),
        default="warning",
        help="Minimum level.",
    ),
    option("--log-format", type=click.Choice(_FORMATS), default="json", help="Log format."),
)


def _driving_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that both commands have: how runs are driven, and what is kept."""
    for one in reversed(_DRIVING_OPTIONS):
        command = one(command)
    return command


@click.command("serve")
@click.argument("file", type=AGENTS, required=False)
@option("--host", default="127.0.0.1", help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port; 0 picks a free one.  [default: 8000]")
@_driving_options
@repeated("--api-key", "keys", metavar="KEY", help="A key that clients may use; may be repeated.")
@repeated("--allow-host", "hosts", metavar="NAME", help="A host name of the server.")
@repeated("--cors", "origins", metavar="ORIGIN", help="An origin whose pages may use it.")
@option("--connections", type=_SOME, default=1_000, help="Per address.")
@click.option("--limit-requests", type=PER_MINUTE, metavar="N/min", help="Requests per key; ten reads count as one.")
@click.option("--limit-tokens", type=PER_MINUTE, metavar="N/min", help="Tokens per key.")
@click.option("--limit-queue", type=_ANY, help="Queued runs per key.")
@click.option("--limit-streams", type=_SOME, help="Open streams per key.")
@option("--access-log", type=click.Choice(["off", *_FORMATS]), default="off", help="One line per request.")
@option("--dispatch", type=click.Choice(["local", "temporal"]), default="local", help="Drive runs here, or by workers.")
@option(
    "--drive",
    type=click.Choice(["auto", "yes", "no"]),
    default="auto",
    help="Drive runs here, too; auto: unless workers live.",
)
@click.option("--evals", type=FOLDER, help="Reports that the studio shows.")
@click.option("--strict", is_flag=True, help="Refuse unknown parameters.")
@click.option("--reload", is_flag=True, help="Start again when code or files of agents change; for development.")
@click.pass_context
def command(context: click.Context, /, file: Target | None, *, reload: bool, **given: Any) -> int:
    """Serve the agents and pipelines of FILE as models to OpenAI clients: chat completions, responses and assistants.

    FILE is a file of agents, or Python code: app.py, app.py:agents or package.module:agent, where the name is that of
    an agent, a team, a pipeline, a list or dict of these, or a function that makes them.

    Keys may also be in RETINUE_API_KEYS, separated by commas. If there are none at all, one is made and shown. Without
    FILE, the environment describes an agent as in OPEA (strategy, llm_endpoint_url, model, tools, ...).
    """
    if reload and not is_reloaded():
        return _serve_reloading(context, file, given)
    gc.disable()  # until ready: starting allocates much and frees nothing
    try:
        return _serve(file, given)
    finally:
        gc.enable()


def _serve_reloading(context: click.Context, file: Target | None, given: Mapping[str, Any]) -> int:
    if file is None:
        raise UsageError("--reload needs a FILE, whose changes it looks for")
    words = sys.argv[1:]
    if given["port"] == 0:  # the same one each time
        with socket.create_server((given["host"], 0)) as free:
            words += ["--port", str(free.getsockname()[1])]
    if context.get_parameter_source("grace") is ParameterSource.DEFAULT:
        words += ["--grace", str(_BRIEF)]
    return serve_reloading(file.folder, words)


def _serve(file: Target | None, given: Mapping[str, Any]) -> int:
    try:
        from ..server.agents.deployment import Deployment
        from ..server.process import read_keys, run_server
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    use_prices(beside=file.file if file else None)
    port = given["port"]
    if port is None:
        said = os.environ.get("port", "") if file is None else ""  # noqa: SIM112 - OPEA's own spelling
        port = int(said) if said.isdigit() and int(said) < 65_536 else 8000
    _leave_own_address(given["host"], port)
    if file is not None:
        deployment = Deployment.load(file)
    else:
        from ..config.yaml_files import read_spec_from_environment

        deployment = Deployment.of(read_spec_from_environment(os.environ))
    if (given["dispatch"] == "temporal") != bool(given["temporal"]):
        raise UsageError("--dispatch temporal and --temporal HOST:PORT go together: workers then drive the runs")
    how = _plan(given, port=port, keys=read_keys(given["keys"]))
    if given["drive"] == "no" and not how.database.startswith("postgresql"):
        raise UsageError("--drive no needs a database that workers share: --db postgresql://USER@HOST/NAME")

    run_server(deployment, how)
    return 0


@click.command("worker")
@click.argument("file", type=AGENTS)
@_driving_options
def worker(file: Target, **given: Any) -> int:
    """Drive the runs of the agents of FILE that servers of the same PostgreSQL database accept.

    FILE is that of the servers. While workers run, servers drive nothing themselves (see retinue serve --drive). Any
    number of workers may run, and end at any time. With --temporal, which the servers then have as well (retinue serve
    --dispatch temporal), Temporal tells workers of runs, too.
    """
    try:
        from ..server.agents.deployment import Deployment
        from ..server.process import collect_seldom, leave_out_prompt_states, work
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    leave_out_prompt_states()
    use_prices(beside=file.file)
    how = _plan(given)
    if not how.database.startswith("postgresql"):
        raise UsageError("a worker needs the database of its servers: --db postgresql://USER@HOST/NAME")

    def ready() -> None:
        collect_seldom()
        click.echo("Retinue is at work")

    run_to_completion(work(Deployment.load(file), how, ready))
    limit_exit()
    return 0


def _plan(given: Mapping[str, Any], **more: Any) -> Serving:
    """Return what the options say. Those that only a server has may be missing. Raises `UsageError` if workers that
    Temporal tells of runs could not share the database."""
    from ..limits.rate import NAMES, Bounds
    from ..server.context import Options
    from ..server.log_output import LogOptions
    from ..server.metrics.process_watch import MetricsPort
    from ..server.process import Serving
    from ..store.engines import database_url
    from ..store.tenant_view import Quota

    database = database_url(given["db"])
    if given["temporal"] and not database.startswith("postgresql"):
        raise UsageError("--temporal needs a database that servers and workers share: --db postgresql://USER@HOST/NAME")

    def has(*names: str) -> dict[str, Any]:
        return {name: given[name] for name in names if name in given}

    options = Options(
        **has("run_ttl", "human_ttl", "retention", "chat_retention", "thread_retention", "audit_retention"),
        **has("strict", "image_hosts", "tool_hosts", "evals"),
        hosted_tools=tuple(filter(None, (name.strip() for name in given["hosted_tools"].split(",")))),
        quota=Quota(given["tenant_bytes"], given["tenant_files"], given["tenant_stores"], given["tenant_memory"]),
    )
    access = given.get("access_log", "off")
    metrics = None
    if given["metrics_port"] is not None:

        def told(address: str) -> None:
            click.echo(f"Metrics are on {address}")

        metrics = MetricsPort(given["metrics_host"], given["metrics_port"], told, given.get("hosts", ()))
    return Serving(
        database,
        options,
        bounds=Bounds(**{name: given.get(f"limit_{name}") for name in NAMES}),
        at_once=given["runs_at_once"],
        agent_runs=dict(given["agent_runs"]),
        model_runs=dict(given["model_runs"]),
        logging=LogOptions(given["log_level"], given["log_format"], None if access == "off" else access),
        metrics=metrics,
        **has("host", "hosts", "origins", "grace", "connections", "drive", "temporal", "tenant_runs"),
        **more,
    )


def _leave_own_address(host: str, port: int) -> None:
    """Remove `OPENAI_BASE_URL` from the environment if it is the address to serve on, as it is for clients: the
    server's own models of the engine `openai` would ask the server itself."""
    own = urlsplit(os.environ.get("OPENAI_BASE_URL", ""))
    with suppress(ValueError):
        if port and (own.port or 80) == port and own.hostname in ("localhost", "127.0.0.1", "::1", "0.0.0.0", host):
            del os.environ["OPENAI_BASE_URL"]
            click.echo("OPENAI_BASE_URL is this server's own address, so its models do not use it", err=True)
