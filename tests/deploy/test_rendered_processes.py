"""The containers of the chart, started with the words, files and environment that it renders."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from fakes.postgres import Postgres
from fakes.rendered_chart import container, manifests, pod
from fakes.scrapes import Watched
from fakes.until import until
from retinue.cli.main import main


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def mounted(folder: Path) -> Path:
    """The files of agents as Kubernetes mounts a ConfigMap: links to files of a folder that a link names."""
    (config,) = manifests("minimal", "ConfigMap")
    (folder / "..2026").mkdir(parents=True)
    (folder / "..data").symlink_to("..2026")
    for name, text in config["data"].items():
        (folder / "..2026" / name).write_text(text)
        (folder / name).symlink_to(f"..data/{name}")
    return folder


class Container:
    """A container's process here: only the places of its files, its ports and its database are others."""

    def __init__(self, component: str, folder: Path, url: str) -> None:
        self.spec = container("minimal", component)
        self.pod = pod("minimal", component)
        self.ports = {one["name"]: free_port() for one in self.spec["ports"]}
        places = {str(one["containerPort"]): str(self.ports[one["name"]]) for one in self.spec["ports"]}
        self.words = [self._here(word, folder, url, places) for word in self.spec["args"]]
        env = {"HOME": str(folder / "home"), "PATH": os.environ["PATH"], "RETINUE_API_KEYS": "sk-1"}
        (folder / "home").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "retinue", *self.words]
        self.process = subprocess.Popen(command, env=env, cwd=folder / "home", stdout=subprocess.PIPE, text=True)

    @staticmethod
    def _here(word: str, folder: Path, url: str, places: dict[str, str]) -> str:
        if word.startswith("postgresql://"):
            return url
        name, sign, value = word.partition("=")
        if name.endswith("port"):
            return f"{name}{sign}{places[value]}"
        return word.replace("/etc/retinue/agents", str(folder / "agents"))

    def probe(self, name: str) -> int:
        """The status that a probe gets, as from another machine; 0 if nobody answers."""
        get: dict[str, Any] = self.spec[name]["httpGet"]
        host = {"Host": f"10.0.0.7:{self.ports[get['port']]}"}
        try:
            with urlopen(Request(f"http://127.0.0.1:{self.ports[get['port']]}{get['path']}", headers=host)) as answer:
                return int(answer.status)
        except (URLError, ConnectionError):
            return 0

    def answer(self, question: str) -> str:
        """What a client is told."""
        body = json.dumps({"model": "agent", "input": question}).encode()
        headers = {"authorization": "Bearer sk-1", "content-type": "application/json"}
        with urlopen(Request(f"http://127.0.0.1:{self.ports['http']}/v1/responses", body, headers)) as answered:
            said: str = json.load(answered)["output"][-1]["content"][0]["text"]
            return said


@contextmanager
def started(component: str, folder: Path, url: str) -> Iterator[Container]:
    one = Container(component, folder, url)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


@pytest.mark.full
def test_they_get_ready_and_share_the_work_and_end_in_time(a_postgres: Postgres, tmp_path: Path) -> None:
    url = a_postgres.database()
    mounted(tmp_path / "agents")
    with ExitStack() as stack:
        both = [stack.enter_context(started(name, tmp_path, url)) for name in ("server", "worker")]
        for one in both:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                until(lambda one=one, probe=probe: one.probe(probe) == 200)  # type: ignore[misc]
        server, worker = both
        begun = Watched(f"http://127.0.0.1:{worker.ports['metrics']}/metrics")
        # the server leaves runs to the worker as soon as it has noticed it
        until(lambda: server.answer("Hello?") == "Hello." and begun.sum("retinue_runs_begun_total"))
        for one in both:
            one.process.send_signal(signal.SIGTERM)
        for one in both:
            assert one.process.wait(one.pod["terminationGracePeriodSeconds"]) == 0
            assert one.probe("readinessProbe") == 0


@pytest.mark.full
def test_the_migration_is_a_command_that_ends(a_postgres: Postgres) -> None:
    words = container("temporal", "migration")
    args = [a_postgres.database() if word.startswith("postgresql:") else word for word in words["args"]]
    assert main(args) == 0
