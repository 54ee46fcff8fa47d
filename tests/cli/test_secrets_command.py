"""`retinue secrets`: set, listed, rotated and deleted, and shown to nobody."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from retinue.cli import main
from retinue.store.admin_transaction import read_only
from retinue.store.sealed_secrets import VARIABLE, SecretOwner, read_secret

VALUE = "tok+alice/0123456789="


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["secrets", "key"]) == 0
    monkeypatch.setenv(VARIABLE, capsys.readouterr().out.strip())
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{VALUE}\n"))
    return str(tmp_path / "runs.db")


def test_a_secret_is_set_listed_rotated_and_deleted(
    db: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of = ["--tenant", "acme", "--user", "alice", "--db", db]
    assert main(["secrets", "set", "TOKEN", *of]) == 0
    assert main(["secrets", "list", *of]) == 0
    assert "TOKEN" in capsys.readouterr().out
    assert main(["secrets", "list", "--tenant", "acme", "--db", db]) == 0
    assert "TOKEN" not in capsys.readouterr().out  # which is the user's
    old = os.environ[VARIABLE]
    main(["secrets", "key"])
    new = capsys.readouterr().out.strip()
    monkeypatch.setenv(VARIABLE, f"{new},{old}")
    assert main(["secrets", "rotate", "--db", db]) == 0
    assert "1 secrets are encrypted" in capsys.readouterr().err
    with read_only(f"sqlite:///{db}") as connection:
        assert read_secret(connection, SecretOwner("acme", "alice"), "TOKEN", {VARIABLE: new}) == VALUE
    assert main(["secrets", "delete", "TOKEN", *of]) == 0
    assert main(["secrets", "delete", "TOKEN", *of]) == 2
    assert main(["audit", "list", "--db", db]) == 0
    said = capsys.readouterr()
    assert "alice has no secret 'TOKEN'" in said.err
    assert "secret.set" in said.out
    assert VALUE not in said.out + said.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["set", "TO-KEN"], "is not the name of a secret"),
        (["set", "TOKEN", "--user", " alice"], "is not a valid user"),
        (["set", "TOKEN", "--tenant", "a b"], "is not a valid tenant"),
    ],
)
def test_what_is_wrong_is_said(db: str, words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["secrets", *words, "--db", db]) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert VALUE not in said.out + said.err


def test_without_a_key_it_says_how_to_make_one(
    db: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE)
    assert main(["secrets", "set", "TOKEN", "--db", db]) == 2
    assert "`retinue secrets key` makes one" in capsys.readouterr().err
