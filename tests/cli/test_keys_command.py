"""`retinue keys`: made, listed and revoked, also where no server has been."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.test_ask import refused, retinue
from retinue.cli import main
from retinue.store.api_keys import hash_key


def test_a_key_is_shown_once_and_listed_without_it(tmp_path: Path) -> None:
    db = str(tmp_path / "new" / "runs.db")
    limits = ["--limit", "requests=100/min", "--limit", "queue=0", "--limit", "runs=none"]
    words = ["--tenant", "acme", "--name", "for the website", "--scope", "runs", "--scope", "read", "--expires", "30d"]
    made = retinue("keys", "make", *words, *limits, "--db", db)
    key = made.stdout.strip()
    assert re.fullmatch(r"sk-[\w-]{43}", key)
    assert re.fullmatch(r"key_[0-9a-f]{24} of acme; the key cannot be shown again\n", made.stderr)
    assert retinue("keys", "make", "--db", db).returncode == 0
    listed = retinue("keys", "list", "--db", db)
    head, *rows = listed.stdout.splitlines()
    first, second = sorted(rows, key=lambda row: "acme" not in row)  # of one second, keys are told by their ids
    assert head.split() == ["ID", "KEY", "TENANT", "USER", "NAME", "SCOPES", "LIMITS", "MADE", "STATE"]
    for part in (
        made.stderr[:28],
        f"{key[:8]}…",
        "acme",
        "for the website",
        "read,runs",
        "requests=100/min queue=0 runs=none",
    ):
        assert part in first
    assert "good until " in first
    assert second.split()[2:4] == ["default", "all"]
    assert second.endswith("  good")
    assert key not in listed.stdout
    assert key.encode() not in b"".join(one.read_bytes() for one in Path(db).parent.iterdir())
    with closing(sqlite3.connect(db)) as connection:
        assert (hash_key(key),) in connection.execute("SELECT hash FROM keys").fetchall()


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = ["--db", str(tmp_path / "runs.db")]
    assert main(["keys", "make", "--expires", "90m", "--limit", "tokens=5", "--json", *db]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["expires_at"] - made["created_at"] == 5400
    assert (made["tenant"], made["scopes"], made["limits"]) == ("default", ["all"], {"tokens": 5})
    assert main(["keys", "revoke", made["id"], *db]) == 0
    assert capsys.readouterr().out == f"{made['id']} of default was revoked\n"
    assert main(["keys", "revoke", made["id"], *db]) == 0  # once more changes nothing
    capsys.readouterr()
    assert main(["keys", "list", "--json", *db]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert "key" not in listed
    assert listed["revoked_at"] >= made["created_at"]
    assert listed["state"].startswith("revoked ")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["make", "--tenant", "a b"], "'a b' is not a valid tenant: want up to 64 letters"),
        (["make", "--tenant", ""], "'' is not a valid tenant"),
        (["make", "--name", "two\nlines"], "a key's name must be one line of at most 256 characters"),
        (
            ["make", "--scope", "write"],
            "'write' is not one of 'read', 'runs', 'agents', 'memories', 'tools', 'secrets', 'prompts', "
            "'audit', 'act-as', 'all'",
        ),
        (["make", "--expires", "30"], "'30' is not a duration, such as 90m, 12h, 30d or 8w"),
        (["make", "--expires", "0d"], "'0d' is not a duration"),
        (["make", "--limit", "speed=3"], "'speed=3' is not a limit; there are requests=N, tokens=N, runs=N"),
        (["make", "--limit", "requests=many"], "'many' is not a number per minute, such as 100/min"),
        (["make", "--limit", "runs=0"], "'0' is not a number of runs: want 1 or more, or none"),
        (["make", "--limit", "streams=-1"], "'-1' is not a number of streams"),
        (["list"], "runs.db does not exist; name another with --db"),
        (["revoke", "key_1"], "runs.db does not exist; name another with --db"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_made(
    words: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "runs.db"
    assert main(["keys", *words, "--db", str(db)]) == 2
    said = capsys.readouterr()
    assert problem in said.err
    assert (said.out, "Traceback" in said.err, list(tmp_path.iterdir())) == ("", False, [])


def test_a_key_or_a_database_that_is_not_ours(tmp_path: Path) -> None:
    db = str(tmp_path / "runs.db")
    assert retinue("keys", "make", "--db", db).returncode == 0
    assert "there is no key 'key_1'; `retinue keys list` shows their ids" in refused(
        retinue("keys", "revoke", "key_1", "--db", db)
    )
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE mine (a)")
    assert "holds tables of another application" in refused(retinue("keys", "make", "--db", str(tmp_path / "other.db")))
    (tmp_path / "text.db").write_text("no database at all, but a text of some length\n" * 100)
    assert "file is not a database" in refused(retinue("keys", "list", "--db", str(tmp_path / "text.db")))
    assert "expected sqlite:///FILE or postgresql://" in refused(
        retinue("keys", "list", "--db", "mysql://u:secret@h/d")
    )


def test_prompts_are_seen_only_by_keys_that_name_the_scope(tmp_path: Path) -> None:
    db = ["--db", str(tmp_path / "runs.db")]
    made = {
        words: json.loads(retinue("keys", "make", *words, "--json", *db).stdout)["scopes"]
        for words in ((), ("--scope", "all", "--scope", "read"), ("--scope", "all", "--scope", "prompts"))
    }
    assert list(made.values()) == [["all"], ["all"], ["all", "prompts"]]
