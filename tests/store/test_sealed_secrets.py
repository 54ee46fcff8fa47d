"""Secrets that are kept: nobody reads them without the key, nor as somebody else's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, select, update

from retinue.errors import DataError, UsageError
from retinue.store.admin_transaction import admin_transaction
from retinue.store.sealed_secrets import (
    LONGEST,
    MOST,
    VARIABLE,
    SecretOwner,
    delete_secret,
    list_secrets,
    make_secrets_key,
    read_secret,
    rotate_secrets,
    set_secret,
)
from retinue.store.tables import sealed_secrets

ALICE, BOB, ACME = SecretOwner("acme", "alice"), SecretOwner("acme", "bob"), SecretOwner("acme")
VALUE = "tok+alice/0123456789="
OLD, NEW = ({VARIABLE: make_secrets_key()} for _ in range(2))
BOTH = {VARIABLE: f"{NEW[VARIABLE]}, {OLD[VARIABLE]}"}


@pytest.fixture
def connection(any_url: str) -> Iterator[Connection]:
    with admin_transaction(any_url, new=True) as connection:
        yield connection


def test_each_has_their_own(connection: Connection) -> None:
    for owner in (ALICE, BOB, ACME):
        set_secret(connection, owner, "TOKEN", f"{VALUE} of {owner.user}", OLD)
    set_secret(connection, ALICE, "TOKEN", VALUE, OLD)
    assert read_secret(connection, ALICE, "TOKEN", OLD) == VALUE
    assert read_secret(connection, ACME, "TOKEN", OLD) == f"{VALUE} of None"
    assert read_secret(connection, SecretOwner("umbrella", "alice"), "TOKEN", OLD) is None
    assert [*list_secrets(connection, ALICE)] == ["TOKEN"]
    assert delete_secret(connection, ALICE, "TOKEN")
    assert not delete_secret(connection, ALICE, "TOKEN")
    assert read_secret(connection, BOB, "TOKEN", OLD) == f"{VALUE} of bob"


def test_the_key_can_be_changed(connection: Connection) -> None:
    set_secret(connection, ALICE, "TOKEN", VALUE, OLD)
    assert read_secret(connection, ALICE, "TOKEN", BOTH) == VALUE
    with pytest.raises(DataError, match="lacks the key that it was set with"):
        read_secret(connection, ALICE, "TOKEN", NEW)
    with pytest.raises(DataError):
        rotate_secrets(connection, NEW)
    assert rotate_secrets(connection, BOTH) == 1
    assert read_secret(connection, ALICE, "TOKEN", NEW) == VALUE


def test_a_row_cannot_be_passed_off_as_anothers(connection: Connection) -> None:
    set_secret(connection, ALICE, "TOKEN", VALUE, OLD)
    set_secret(connection, BOB, "TOKEN", VALUE[::-1], OLD)
    sealed = connection.execute(select(sealed_secrets.c.sealed).where(*ALICE.rows("TOKEN"))).scalar()
    connection.execute(update(sealed_secrets).where(*BOB.rows("TOKEN")).values(sealed=sealed))
    with pytest.raises(DataError, match="altered"):
        read_secret(connection, BOB, "TOKEN", OLD)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("a-b", VALUE, "not the name of a secret"),
        ("", VALUE, "not the name of a secret"),
        ("TOKEN", "short", "8 to 8,192 characters"),
        ("TOKEN", "x" * (LONGEST + 1), "8 to 8,192 characters"),
        ("TOKEN", f"{VALUE}\n", "no white space around it"),
        ("TOKEN", f"{VALUE}\0{VALUE}", "no NUL"),
    ],
)
def test_what_cannot_be_set_is_refused_and_not_repeated(
    connection: Connection, name: str, value: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as error:
        set_secret(connection, ALICE, name, value, OLD)
    assert value not in str(error.value)


@pytest.mark.parametrize(
    ("key", "says"), [("", "need a key in the variable"), ("no key", "holds something that is no key")]
)
def test_without_a_good_key_it_says_what_to_do(connection: Connection, key: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"{says}.*retinue secrets key"):
        set_secret(connection, ALICE, "TOKEN", VALUE, {VARIABLE: key})


def test_there_is_a_most(connection: Connection) -> None:
    for number in range(MOST):
        set_secret(connection, ALICE, f"TOKEN_{number}", VALUE, OLD)
    set_secret(connection, ALICE, "TOKEN_1", VALUE, OLD)
    with pytest.raises(UsageError, match="which is the most"):
        set_secret(connection, ALICE, "ANOTHER", VALUE, OLD)
