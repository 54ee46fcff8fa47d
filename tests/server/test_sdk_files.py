"""Files through the SDK."""

from __future__ import annotations

import io
from typing import Any

import openai
import pytest

from fakes.app_server import Serving, upload
from fakes.sdk import MARKS, each, of, refused
from retinue.server.http.request_body import MAX_BYTES

pytestmark = MARKS


async def test_a_file_is_kept_byte_for_byte_listed_and_deleted(client: Any) -> None:
    content = bytes(range(256)) * 10
    made = await of(client.files.create(file=("../a b/é\u4e2d.bin", content), purpose="user_data"))
    assert (made.id[:5], made.object, made.status) == ("file-", "file", "processed")
    assert (made.filename, made.bytes, made.purpose, made.expires_at) == (
        "../a b/é\u4e2d.bin",
        len(content),
        "user_data",
        None,
    )
    assert await of(client.files.retrieve(made.id)) == made
    assert await of(client.files.wait_for_processing(made.id)) == made
    assert (await of(client.files.content(made.id))).read() == content
    found = [one.id async for one in each(client.files.list(purpose="user_data", limit=1))]
    assert made.id in found
    assert made.id not in [one.id async for one in each(client.files.list(purpose="vision"))]
    gone = await of(client.files.delete(made.id))
    assert (gone.id, gone.object, gone.deleted) == (made.id, "file", True)
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with refused(openai.NotFoundError, f"No such File object: {made.id}", param="id"):
            await of(call(made.id))


async def test_lists_go_on_where_they_ended(client: Any) -> None:
    names = [f"page-{number}.txt" for number in range(5)]
    for name in names:
        await of(client.files.create(file=(name, b"x"), purpose="batch"))
    pages = client.files.list(purpose="batch", limit=2, order="asc")
    assert [one.filename async for one in each(pages)][-5:] == names


async def test_a_file_that_expires(client: Any) -> None:
    made = await of(
        client.files.create(
            file=io.BytesIO(b"x"), purpose="vision", expires_after={"anchor": "created_at", "seconds": 3_600}
        )
    )
    assert made.expires_at == made.created_at + 3_600


@pytest.mark.parametrize(
    ("given", "message", "code", "param"),
    [
        ({"purpose": "poetry"}, None, "invalid_value", "purpose"),
        ({"file": ("\x1b[31mred", b"x")}, None, "invalid_value", "file"),
        ({"file": ("a" * 257, b"x")}, None, "invalid_value", "file"),
        (
            {"expires_after": {"anchor": "created_at", "seconds": 1}},
            "Invalid 'expires_after[seconds]': integer below minimum value. "
            "Expected a value >= 3600, but got 1 instead.",
            "integer_below_min_value",
            "expires_after[seconds]",
        ),
        (
            {"expires_after": {"anchor": "created_at"}},
            "Missing required parameter: 'expires_after[seconds]'.",
            "missing_required_parameter",
            "expires_after[seconds]",
        ),
    ],
)
async def test_what_no_file_can_be(client: Any, given: Any, message: str | None, code: str, param: str) -> None:
    with refused(openai.BadRequestError, message, code=code, param=param):
        await of(client.files.create(**{"file": ("a.txt", b"x"), "purpose": "assistants", **given}))


def test_content_is_for_no_browser(on_both: Serving) -> None:
    page = b"<script>alert(1)</script>"
    made = upload(on_both, "x; filename=evil.html", page).body
    said = on_both.ask("GET", f"/v1/files/{made['id']}/content")
    assert (said.status, said.text.encode()) == (200, page)
    assert said.headers["content-type"] == "application/octet-stream"
    assert said.headers["x-content-type-options"] == "nosniff"
    assert said.headers["content-disposition"] == "attachment; filename*=UTF-8''x%3B%20filename%3Devil.html"


def test_a_request_that_is_no_upload(served: Serving) -> None:
    said = served.ask("POST", "/v1/files", {"purpose": "assistants"})
    assert (said.status, said.error["message"]) == (400, "Missing required parameter: 'file'.")
    said = served.ask("POST", "/v1/files", data=b"--x", headers={"content-type": "multipart/form-data; boundary=x"})
    assert said.status == 400
    assert said.error["type"] == "invalid_request_error"


def test_a_file_that_is_too_large(served: Serving) -> None:
    said = upload(served, "large.txt", b"x" * MAX_BYTES)
    assert (said.status, said.error["code"]) == (413, "request_too_large")
