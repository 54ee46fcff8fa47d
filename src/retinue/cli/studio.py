"""`retinue studio`: shows what is in a server's database, in a browser on this machine."""

from __future__ import annotations

import gc
import secrets
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .._internal.sync_bridge import run_to_completion
from ..config.agent_code import Target
from ..errors import UsageError
from .option_types import AGENTS, FOLDER
from .serve import MISSING
from .server_database import DB_OPTION

_HOST = "127.0.0.1"
_SHOWS, _DOES = ("memories", "prompts", "read"), ("all", "prompts")


@click.command("studio")
@click.argument("file", type=AGENTS, required=False)
@DB_OPTION
@click.option("--tenant", default="default", show_default=True, help="Whose runs are shown.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="The port.  [default: any that is free]")
@click.option("--evals", type=FOLDER, help="Reports of `retinue eval` to show.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def command(file: Target | None, *, no_browser: bool, **given: Any) -> int:
    """Look at the runs of a database in a browser.

    The address that is printed holds a key, which is valid until the command ends. With the agents of FILE, runs go on,
    and you can ask, approve and fork; without FILE, what is stored is only shown, also while agents keep their runs in
    it (`Agent(store=…)`). If a server has the database file open, open its own studio instead: /studio at the server's
    address.
    """
    db = given["db"]
    if file is None and "://" not in db and not Path(db).exists():
        raise UsageError(f"there is no database {db}: give the one of a server with --db, or a FILE of agents")
    gc.disable()  # until ready: starting allocates much and frees nothing
    try:
        return _serve(file, given, browser=not no_browser and sys.stdout.isatty())
    finally:
        gc.enable()


def _serve(file: Target | None, given: Mapping[str, Any], *, browser: bool) -> int:
    try:
        from ..server.agents.deployment import Deployment
        from ..server.context import Options
        from ..server.process import Serving, leave_out_prompt_states, serve
        from ..store.api_keys import Key, hash_key, key_id_of
        from ..store.database_lock import TAKEN
        from ..store.engines import database_url
    except ModuleNotFoundError as error:
        raise UsageError(MISSING) from error
    leave_out_prompt_states()
    key = f"sk-{secrets.token_urlsafe(32)}"
    scopes = _SHOWS if file is None else _DOES
    known = {key: Key(key_id_of(hash_key(key)), given["tenant"], "studio", scopes=scopes)}
    deployment = Deployment({}) if file is None else Deployment.load(file)
    options = Options(evals=given["evals"])
    listens = {"host": _HOST, "port": given["port"], "known_keys": known}
    how = Serving(database_url(given["db"]), options, **listens, drives=file is not None, shared=True)

    def ready(address: str) -> None:
        gc.enable()
        url = f"{address}/studio/#key={key}"
        click.echo(f"The studio is at {url}\nCtrl-C ends it.")
        if browser:
            webbrowser.open(url)

    try:
        run_to_completion(serve(deployment, how, ready, lambda _: None))
    except UsageError as error:
        if TAKEN not in str(error):
            raise
        raise UsageError(f"{str(error).removesuffix(TAKEN)}its studio is at /studio of its address") from error
    return 0
