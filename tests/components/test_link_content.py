"""`LinkContentFetcher` against a server that has all kinds of pages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.pages_server import ROOM, PagesServer
from retinue import Agent, Pipeline, PromptModel, Tool, ToolError
from retinue.components import LinkContentFetcher


@pytest.fixture
def pages() -> Iterator[PagesServer]:
    with PagesServer() as server:
        yield server


def fetching(pages: PagesServer, **options: Any) -> LinkContentFetcher:
    return LinkContentFetcher(**{"allow": [pages.place]} | options)


def test_a_page_becomes_a_document_with_its_text(pages: PagesServer) -> None:
    found = fetching(pages).run(f"{pages.url}/good#part")
    (document,) = found["documents"]
    paragraphs = ("A first paragraph about good, long enough to be the text of a page.", "A second one, with more.")
    text = "\n\n".join(("The good page", *paragraphs))
    assert document.content == text
    assert document.id == document.meta["url"] == f"{pages.url}/good"
    assert (document.meta["title"], document.meta["media_type"]) == ("The good page", "text/html")
    assert document.meta["timestamp"].endswith("+00:00")
    assert found["results"] == f"The good page ({pages.url}/good)\n\n{text}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/gzip", "A first paragraph about packed"), ("/deflate", "about packed"), ("/bare-deflate", "about packed"),
        ("/latin", "The Grüße page"), ("/cyrillic", "The Привет page"), ("/said-wrong", "The Grüße page"),
        ("/said-nonsense", "The Grüße page"), ("/japanese", "The 日本語 page"), ("/broken", "unclosed"),
        ("/pdf", "Text of a PDF."), ("/pdf-as-html", "Text of a PDF."), ("/plain", "Plain äöü."),
        ("/json", '{"a": [1, 2]}'), ("/xml", "<title>T</title>"), ("/untyped", "A first paragraph about untyped"),
        ("/to?url=/good", "The good page"), ("/to?url=/to?url=/plain", "Plain"),
    ],
)  # fmt: skip
def test_texts_of_all_kinds(pages: PagesServer, path: str, text: str) -> None:
    assert text in fetching(pages).run(f"{pages.url}{path}")["documents"][0].content


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/404", "the server answered 404"), ("/500", "the server answered 500"),
        ("/image", "image/png cannot be read"), ("/image-as-html", "it is not text"),
        ("/empty", "no text on this page"), ("/broken-pdf", "this PDF cannot be read"),
        ("/brotli", "unsupported Content-Encoding: br"), ("/twice", "unsupported Content-Encoding: gzip, gzip"),
        ("/broken-gzip", "its gzip data is invalid"), ("/gzip-bomb", f"larger than {ROOM:,} bytes"),
        ("/deflate-bomb", f"larger than {ROOM:,} bytes"), ("/huge", f"larger than {ROOM:,} bytes"),
        ("/endless", f"larger than {ROOM:,} bytes"), ("/loop", "redirected more than 5 times"),
        ("/to?url=ftp://x.example/", "only http and https"), ("/to?url=http://a@b/", "is not the name of a server"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_said(pages: PagesServer, path: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        fetching(pages).run(f"{pages.url}{path}")


@pytest.mark.parametrize("path", ["/slow", "/dripping"])
def test_a_page_has_so_long_to_come(pages: PagesServer, path: str) -> None:
    with pytest.raises(ToolError, match=r"did not answer within 0\.2 seconds"):
        fetching(pages, seconds=0.2).run(f"{pages.url}{path}")


@pytest.mark.parametrize("path", ["/nested", "/attributes"])
def test_a_page_has_so_long_to_be_read(pages: PagesServer, path: str) -> None:
    with pytest.raises(ToolError, match=r"could not be read within 1 seconds"):
        fetching(pages, seconds=1).run(f"{pages.url}{path}")


def test_a_server_that_is_not_there(pages: PagesServer) -> None:
    with pytest.raises(ToolError, match="Connection refused"):
        LinkContentFetcher(allow=["127.0.0.1:1"]).run("http://127.0.0.1:1/")


def test_a_model_is_shown_the_beginning(pages: PagesServer) -> None:
    found = fetching(pages, max_bytes=10 * ROOM).run(f"{pages.url}/huge")
    assert len(found["results"]) < 10_200
    assert found["results"].endswith("more characters)")
    assert len(found["documents"][0].content) == 2_000_000


def test_pipelines_tools_and_batches(pages: PagesServer) -> None:
    fetcher = fetching(pages)
    pipeline = Pipeline()
    pipeline.add_node(fetcher, "Page", {"url": "Query.query"})
    assert pipeline.run(f"{pages.url}/good")["documents"][0].meta["title"] == "The good page"
    tool = Tool("Read", fetcher)
    assert tool.description.startswith("Read a page of the web: its text")
    assert asyncio.run(tool.call(f"{pages.url}/plain")) == f"{pages.url}/plain\n\nPlain äöü."
    assert len(fetcher.run_batch([f"{pages.url}/good", f"{pages.url}/other"])) == 2


FILE = """\
components:
  - name: Page
    type: LinkContentFetcher
    params: {allow: [PLACE], ports: [80, 443, 8443], seconds: 5, max_bytes: 1000000}
agents:
  - name: a
    params:
      script: [{when: "", times: 1, call: {tool: Read, input: "http://PLACE/plain"}}, {finish: done}]
      tools: [{name: Read, pipeline_or_node: Page, description: reads}]
"""


def test_in_a_file(pages: PagesServer, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(FILE.replace("PLACE", pages.place))
    agent = Agent.load_from_yaml(tmp_path / "a.yml")
    agent.save_to_yaml(tmp_path / "b.yml")
    assert Agent.load_from_yaml(tmp_path / "b.yml") == agent
    assert "Plain äöü." in agent.run("?").transcript
    written = Agent(PromptModel(script=[{"finish": "x"}]))
    written.add_tool("Read", LinkContentFetcher(["intranet:80"]), "reads")
    written.save_to_yaml(tmp_path / "c.yml")
    assert Agent.load_from_yaml(tmp_path / "c.yml").tools[0].something.given["allow"] == ("intranet:80",)
