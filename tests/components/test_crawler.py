"""`Crawler` against a site on loopback: what it reads, and where it stops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fakes.site_server import SiteServer, page
from retinue import Agent, DocumentStore, Tool, ToolError, UsageError
from retinue.components import Crawler, LinkContentFetcher, Retriever

SITE = {
    "/": page("Home", "/a", "b?c=1#part", "/a#again", "https://other.example/", "mailto:a@b.example", "!/secret"),
    "/a": page("A", "/", "/a/deep", "//other.example/", "http://[", "javascript:void(0)"),
    "/b?c=1": page("B", "../a"),
    "/a/deep": page("Deep", "/a/deeper"),
    "/a/deeper": page("Deeper"),
}


def crawler(of: SiteServer, *others: str, **options: Any) -> Crawler:
    return Crawler(fetcher=LinkContentFetcher([of.place, *others], seconds=5), **options)


def crawled(of: Mapping[str, str], start: str = "/", **options: Any) -> tuple[list[str], list[str], list[str]]:
    """The titles of what was read, the problems without the site's address, and what was asked for."""
    with SiteServer(of) as site:
        found = crawler(site, **options).run(f"{site.url}{start}")
        problems = [problem.replace(site.url, "") for problem in found["problems"]]
        return [one.meta["title"] or one.id for one in found["documents"]], problems, sorted(site.asked)


def test_pages_of_the_site_are_read_nearest_first() -> None:
    with SiteServer(SITE) as site:
        found = crawler(site).run(f"{site.url}/")
        assert [(one.meta["title"], one.meta["depth"]) for one in found["documents"]] == [
            ("Home", 0), ("A", 1), ("B", 1), ("Deep", 2),
        ]  # fmt: skip
        assert [one.id for one in found["documents"]] == [f"{site.url}{path}" for path in list(SITE)[:4]]
        assert (
            found["documents"][1].content
            == "This is a sentence about A, long enough to be the text of a page.\n\nx x x x x"
        )
        assert found["results"].splitlines()[:2] == ["Read 4 pages:", f"Home ({site.url}/)"]
        assert site.asked[0] == "/robots.txt"
        assert sorted(site.asked) == sorted(["/robots.txt", *list(SITE)[:4]])  # each once, and nothing else


def test_depth_and_number_of_pages_are_limited() -> None:
    assert crawled(SITE, depth=0)[0] == ["Home"]
    assert crawled(SITE, depth=3)[0][-1] == "Deeper"
    titles, problems, asked = crawled(SITE, pages=2)
    assert (titles, problems) == (["Home", "A"], ["not all pages were read: more than 2"])
    assert len(asked) == 3


def test_an_endless_site_ends() -> None:
    """Each page leads to a hundred new ones; pages that fail count, too."""
    pages = {"/": page("Home", *(f"/{at}" for at in range(100)))}
    pages |= {f"/{at}": page(f"{at}", *(f"/{at}/{below}" for below in range(100))) for at in range(0, 100, 2)}
    titles, problems, asked = crawled(pages, pages=10, depth=5)
    assert len(asked) == 11
    assert len(titles) == 6
    assert len(problems) == 5  # four pages, and that there are more


def test_bytes_are_limited() -> None:
    pages = {"/": page("Home", "/big", "/small"), "/big": "x" * 5_000, "/small": page("Small", "/more"), "/more": "x"}
    titles, problems, _ = crawled(pages, max_bytes=4_000)
    assert len(titles) == 3
    assert problems == ["not all pages were read: they are larger than 4,000 bytes"]


def test_what_was_read_in_time_is_the_result() -> None:
    titles, problems, _ = crawled({"/": page("Home", "/hang")}, seconds=1.5)
    assert titles == ["Home"]
    assert problems == ["not all pages were read: the 1.5 seconds were over"]


def test_robots_txt_is_heeded_also_for_redirects() -> None:
    robots = "User-agent: *\nDisallow: /private\nAllow: /private/open"
    pages = {
        "/": page("Home", "/private", "/private/open", "/moved"),
        "/private/open": page("Open"),
        "/moved": "->/private/x",
        "/private/x": page("Private"),
        "/robots.txt": robots,
    }
    titles, problems, asked = crawled(pages)
    assert titles == ["Home", "Open"]
    refused = ": the site's robots.txt asks programs not to read it"
    assert problems == [f"/private{refused}", f"/private/x{refused}"]
    assert asked == ["/", "/moved", "/private/open", "/robots.txt"]


@pytest.mark.parametrize(
    ("robots", "problem"),
    [
        ("404", ""), ("403", ""), ("429", "asks programs not to read it"), ("500", "asks programs not to read it"),
        ("->/robots.txt", r"robots\.txt: redirected more than 5 times"),
    ],
)  # fmt: skip
def test_a_robots_txt_that_cannot_be_had(robots: str, problem: str) -> None:
    pages = {"/": page("Home"), "/robots.txt": robots}
    if not problem:
        assert crawled(pages)[0] == ["Home"]
    else:
        with pytest.raises(ToolError, match=problem):
            crawled(pages)


def test_redirects_within_the_site_are_followed_and_others_are_not() -> None:
    with SiteServer({"/": page("Other")}) as other:
        pages = {"/": "->/home", "/home": page("Home", "/", "/out"), "/out": f"->{other.url}/"}
        with SiteServer(pages) as site:
            found = crawler(site, other.place).run(f"{site.url}/")
            assert [one.id for one in found["documents"]] == [f"{site.url}/home"]
            assert found["problems"] == [f"{other.url}/: leads to another site"]
            assert other.asked == []


def test_a_base_and_pages_without_text_or_of_other_kinds() -> None:
    base = page("Home", "a", "b", head='<base href="/sub/">')
    pages = {"/": base, "/sub/a": "plain, with <a href=/no>", "/sub/b": "<html></html>"}
    titles, problems, _ = crawled(pages)
    assert titles[0] == "Home"
    assert titles[1].endswith("/sub/a")
    assert problems == ["/sub/b: there is no text on this page"]


def test_a_first_page_that_cannot_be_had_is_an_error() -> None:
    with pytest.raises(ToolError, match="the server answered 404"):
        crawled({}, "/none")
    with pytest.raises(ToolError, match="is not on the public internet"):
        Crawler().run("http://127.0.0.1/")
    with pytest.raises(ToolError, match="is not a URL"):
        Crawler().run("batteries")


def test_only_the_site_that_was_named_may_be_crawled() -> None:
    with SiteServer(SITE) as site, SiteServer(SITE) as other:
        only = crawler(site, other.place, site=f"{site.url}/a", depth=0)
        assert only.run(f"{site.url}/b?c=1")["documents"][0].meta["title"] == "B"
        with pytest.raises(ToolError, match=f"is not a page of {site.url}/a, and no other site may be read"):
            only.run(f"{other.url}/")
        assert other.asked == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"pages": 0}, "pages must be at least 1, not 0"), ({"depth": -1}, "depth must be at least 0"),
        ({"max_bytes": 0}, "max_bytes must be at least 1"), ({"seconds": 0}, "seconds must be above 0"),
        ({"site": "ftp://x.example"}, "site: .*only http and https"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=f"^Crawler: {problem}"):
        Crawler(**options)


def test_a_page_that_is_read_again_takes_its_former_place_in_the_store() -> None:
    with SiteServer({"/": "First.\n\n" + "x" * 3_000, "/b": "Other."}) as site, DocumentStore() as store:
        for path in ("/", "/b"):
            crawler(site, store=store).run(f"{site.url}{path}")
        assert len(store) == 5
        site.pages["/"] = "Second."
        crawler(site, store=store).run(f"{site.url}/")
        assert sorted(one.content for one in store.filter()) == ["Other.", "Second."]


FILE = """\
components:
  - {name: Page, type: LinkContentFetcher, params: {allow: [PLACE]}}
  - {name: Store, type: DocumentStore, params: {path: site.sqlite}}
  - name: Site
    type: Crawler
    params: {site: "http://PLACE/", fetcher: Page, store: Store, pages: 3, depth: 1, seconds: 20, max_bytes: 100000}
  - {name: Search, type: Retriever, params: {store: Store, top_k: 1, sources: ""}}
agents:
  - name: a
    params:
      script:
        - {when: "^Read 3 pages", call: {tool: search, input: sentence about B}}
        - {when: "about B", finish: found}
        - {call: {tool: read_site, input: "http://PLACE/"}}
      tools:
        - {name: read_site, pipeline_or_node: Site, description: reads}
        - {name: search, pipeline_or_node: Search, description: searches}
"""


def test_in_a_file_what_was_read_is_found_with_its_source(tmp_path: Path) -> None:
    with SiteServer(SITE) as site:
        (tmp_path / "a.yml").write_text(FILE.replace("PLACE", site.place))
        agent = Agent.load_from_yaml(tmp_path / "a.yml")
        agent.save_to_yaml(tmp_path / "b.yml")
        assert Agent.load_from_yaml(tmp_path / "b.yml") == agent
        done = agent.run("?")
        assert done.answer == "found"
        assert f"[B]({site.url}/b?c=1) This is a sentence about B" in done.steps[1].observations[0].text


def test_a_retriever_links_to_sources_if_it_is_told_to(tmp_path: Path) -> None:
    with SiteServer({"/a (b)": page("A")}) as site, DocumentStore() as store:
        crawler(site, store=store).run(f"{site.url}/a%20(b)")
        shown = Tool("t", Retriever(store, sources="")).run("sentence")
        assert shown.startswith(f"[A]({site.url}/a%20%28b%29) This is")
        assert Tool("t", Retriever(store)).run("sentence").startswith("[A] This is")
