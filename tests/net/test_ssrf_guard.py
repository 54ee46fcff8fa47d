"""The way out to addresses that others choose: nothing private is ever connected to."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings, strategies as st
from yarl import URL

from fakes.certificates import certificate_for
from fakes.connections import connections
from fakes.pages_server import PagesServer
from retinue import Document, ToolError, UsageError
from retinue.components import LinkContentFetcher, WebRetriever
from retinue.components.services import Searched
from retinue.net.ssrf_guard import SsrfGuard
from retinue.net.url_policy import is_public, parse_url

DATA = Path(__file__).parents[1] / "data"
HOSTILE = [json.loads(f'"{line}"', strict=False) for line in
           (DATA / "hostile_urls.txt").read_text("utf-8").removesuffix("\n").split("\n")]  # fmt: skip
PUBLIC4, PUBLIC6 = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
GOOD = {
    "http://example.com": ("example.com", 80),
    "https://example.com/": ("example.com", 443),
    "HTTPS://EXAMPLE.COM/Path?q=1#part": ("example.com", 443),
    "https://example.com:443/a b".replace(" ", "%20"): ("example.com", 443),
    "http://example.com:80/": ("example.com", 80),
    "http://example.com:/": ("example.com", 80),
    "https://example.com./": ("example.com", 443),
    " https://www.example.co.uk/x?y=z&a[]=b|c ": ("www.example.co.uk", 443),
    "https://bücher.example/straße?q=ü": ("xn--bcher-kva.example", 443),
    "https://例え.テスト/": ("xn--r8jz45g.xn--zckzah", 443),
    "https://faß.example/": ("xn--fa-hia.example", 443),
    "https://xn--bcher-kva.example/": ("xn--bcher-kva.example", 443),
    "https://a_b.example.com/~user/;p=1": ("a_b.example.com", 443),
    "https://1.example.com/127.0.0.1/": ("1.example.com", 443),
    "https://127.0.0.1.example.com/": ("127.0.0.1.example.com", 443),
    "https://example.com/?next=http://127.0.0.1/@localhost": ("example.com", 443),
    "https://example.com/@user": ("example.com", 443),
    f"http://{PUBLIC4}/": (PUBLIC4, 80),
    "https://8.8.8.8/": ("8.8.8.8", 443),
    f"http://[{PUBLIC6}]/": (PUBLIC6, 80),
    "https://[2001:4860:4860:0:0:0:0:8888]:443/": ("2001:4860:4860::8888", 443),
    "https://[2606:4700:4700::1111]/": ("2606:4700:4700::1111", 443),
}


class Names:
    """A name server that gives `answers`, one after the other, the last for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._answers = list(answers)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Linking:
    """A search that finds these links."""

    def __init__(self, links: Sequence[str]) -> None:
        self._links = links

    async def run_async(self, query: str) -> Searched:
        return {
            "results": "",
            "documents": [Document("snippet", "", {"link": link, "position": 1}) for link in self._links],
        }


@pytest.fixture
def pages() -> Iterator[PagesServer]:
    with PagesServer() as server:
        yield server


def test_there_are_enough_hostile_addresses() -> None:
    assert len(set(HOSTILE)) >= 300


def locations() -> list[str]:
    """Those that can stand in a header; a browser's reading of others is in HOSTILE itself."""
    return [url for url in HOSTILE if url.strip() == url and url.isprintable() and url and "\ud800" not in url]


@pytest.mark.parametrize("answers", [["127.0.0.1"], [PUBLIC4, "127.0.0.1"], ["::1"], ["fe80::1%lo"], []], ids=str)
def test_no_hostile_address_is_connected_to(answers: list[str]) -> None:
    fetcher = LinkContentFetcher(resolve=Names(answers))
    with connections() as seen:
        for url in HOSTILE:
            with pytest.raises(ToolError):
                fetcher.run(url)
    assert seen == []


def test_none_is_connected_to_with_the_systems_own_names() -> None:
    with connections() as seen:
        for url in ("http://localhost/", "http://localhost.:80/", "http://127.0.0.1/", "http://[::1]/"):
            with pytest.raises(ToolError):
                LinkContentFetcher().run(url)
    assert seen == []


def test_none_is_connected_to_when_a_search_finds_it() -> None:
    fetcher = LinkContentFetcher(resolve=Names(["127.0.0.1"]))
    retriever = WebRetriever(Linking(HOSTILE), "document", 1000, 1000, fetcher=fetcher)
    with connections() as seen:
        found = retriever.run("x")["documents"]
    assert seen == []
    assert {document.content for document in found} == {"snippet"}


def test_none_is_connected_to_when_a_page_redirects_there(pages: PagesServer) -> None:
    host, _, port = pages.place.partition(":")
    fetcher = LinkContentFetcher(allow=[pages.place], resolve=Names(["127.0.0.1"]))
    reached = []
    with connections() as seen:
        for url in locations():
            try:
                found = fetcher.run(f"{pages.url}/to?url={quote(url, safe='')}")
            except ToolError:
                continue
            reached.append(found["documents"][0].meta["url"])
    assert set(seen) == {(host, int(port))}
    assert reached == []


def test_a_name_is_looked_up_once_and_that_address_is_connected_to() -> None:
    names = Names([PUBLIC4], ["127.0.0.1"])
    with connections() as seen, pytest.raises(ToolError, match="cannot be reached"):
        LinkContentFetcher(resolve=names).run("http://rebind.example/")
    assert names.asked == [("rebind.example", 80)]
    assert seen == [(PUBLIC4, 80)]
    with connections() as seen, pytest.raises(ToolError, match="not on the public internet"):
        LinkContentFetcher(resolve=Names(["127.0.0.1"], [PUBLIC4])).run("http://rebind.example/")
    assert seen == []


def test_a_redirect_to_the_same_name_is_looked_up_and_checked_anew(pages: PagesServer) -> None:
    place = pages.place.replace("127.0.0.1", "pages.example")
    port = int(place.partition(":")[2])
    names = Names(["127.0.0.1"], ["127.0.0.1"])
    target = f"http://pages.example:{port}/good"
    fetcher = LinkContentFetcher(allow=[place], resolve=names)
    assert fetcher.run(f"http://{place}/to?url={target}")["documents"][0].meta["url"] == target
    assert len(names.asked) == 2
    names = Names(["127.0.0.1"])
    with connections() as seen, pytest.raises(ToolError, match="not on the public internet"):
        LinkContentFetcher(allow=[place], resolve=names).run(f"http://{place}/to?url=http://pages.example/")
    assert seen == [("127.0.0.1", port)]


@pytest.mark.parametrize("url", GOOD)
def test_public_addresses_are_connected_to(url: str) -> None:
    host, port = GOOD[url]
    address = parse_url(url)
    assert (address.host, address.port) == (host, port)
    ip = host if address.ip else PUBLIC4
    with connections() as seen, pytest.raises(ToolError, match="cannot be reached"):
        LinkContentFetcher(resolve=Names([PUBLIC4])).run(url)
    assert seen == [(ip, port)]


def test_all_of_a_names_addresses_are_tried() -> None:
    with connections() as seen, pytest.raises(ToolError, match="cannot be reached"):
        LinkContentFetcher(resolve=Names([PUBLIC6, PUBLIC4])).run("https://example.com")
    assert sorted(seen) == [(PUBLIC6, 443), (PUBLIC4, 443)]


# ── properties ───────────────────────────────────────────────────────────────────────────────────

SPECIAL = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/3", "::/3", "2001::/32", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2",
    "8000::/1",
]  # fmt: skip


def inside(network: IPv4Network | IPv6Network) -> st.SearchStrategy[IPv4Address | IPv6Address]:
    first, last = int(network.network_address), int(network.broadcast_address)
    return st.integers(first, last).map(type(network.network_address))


def written(ip: IPv4Address) -> list[str]:
    """The forms in which systems and libraries take an IPv4 address, and those in which IPv6 carries one."""
    n, (a, b, c, d) = int(ip), ip.packed
    high, low = f"{n >> 16:x}", f"{n & 0xFFFF:x}"
    plain = [
        f"{ip}", f"{ip}.", f"{n}", f"{n:#x}", f"{n:#X}", f"0{n:o}", f"{a}.{n & 0xFFFFFF}", f"{a}.{b}.{n & 0xFFFF}",
        f"{a:#x}.{b:#x}.{c:#x}.{d:#x}", f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"{a:#x}.{b}.0{c:o}.{d}",
        f"{a:03}.{b:03}.{c:03}.{d:03}",
    ]  # fmt: skip
    odd = [
        str(ip).translate({ord("0") + at: ord("０") + at for at in range(10)}),
        str(ip).replace(".", "。"),
        "".join(f"%{ord(sign):02x}" for sign in str(ip)),
        f"user@{ip}",
    ]
    six = [
        f"::{ip}", f"::ffff:{ip}", f"::ffff:{high}:{low}", f"::ffff:0:{ip}", f"64:ff9b::{ip}", f"64:ff9b:1::{ip}",
        f"2002:{high}:{low}::1", f"2001:0:{high}:{low}::1", f"2001:4860::5efe:{ip}", f"2a00:1::200:5efe:{high}:{low}",
    ]  # fmt: skip
    return [*plain, *odd, *(f"[{one}]" for one in six)]


def refused(url: str) -> bool:
    try:
        address = parse_url(url)
    except ToolError:
        return True
    return address.ip is not None and not is_public(address.host)


@settings(max_examples=400)
@given(st.sampled_from(SPECIAL).map(ip_network).flatmap(inside))
def test_a_special_address_is_refused_in_every_form(ip: IPv4Address | IPv6Address) -> None:
    assert not is_public(str(ip))
    forms = written(ip) if isinstance(ip, IPv4Address) else [f"[{ip}]", f"[{ip.exploded}]", f"[{ip}%25eth0]"]
    assert [form for form in forms if not refused(f"http://{form}/")] == []


PIECES = st.sampled_from(
    ["http://", "https://", "//", "/", "\\", "@", ":", "#", "?", "%", "[", "]", ".", "..", "127.0.0.1", "localhost",
     "a", "example.com", "80", "0x7f", "ü", "。", "\u200b", "\u00ad", "\t", "\n", " ", "\ud800", "％", "＠", "／", "：",
     "é", "ß"]
)  # fmt: skip


@settings(max_examples=1000)
@given(st.lists(PIECES | st.text(max_size=3), max_size=9).map("".join) | st.text())
@example("http://example.com/%zz%")
def test_what_is_read_is_what_is_asked_for(url: str) -> None:
    """The HTTP client sees the server that was checked, and reading again changes nothing."""
    try:
        address = parse_url(f"http://{url}" if len(url) % 2 else url)
    except ToolError:
        return
    asked = URL(str(address), encoded=True)
    assert (asked.scheme, asked.raw_host, asked.port) == (address.scheme, address.host, address.port)
    assert (asked.user, asked.password, asked.raw_path_qs) == (None, None, address.path)
    assert str(address).isascii()
    assert parse_url(str(address)) == address


# ── what is private and still wanted ─────────────────────────────────────────────────────────────


def test_a_private_server_is_allowed_by_host_and_port(pages: PagesServer) -> None:
    port = pages.place.partition(":")[2]
    assert asyncio.run(SsrfGuard((pages.place,)).get(f"{pages.url}/plain")).data == "Plain äöü.".encode()
    for allow in ((), ("127.0.0.1:1",), (f"localhost:{port}",), (f"[::1]:{port}",)):
        with pytest.raises(ToolError, match=r"port|public"):
            asyncio.run(SsrfGuard(allow).get(f"{pages.url}/plain"))
    by_name = SsrfGuard((f"INTRANET:{port}",), resolve=Names(["127.0.0.1"]))
    assert asyncio.run(by_name.get(f"http://intranet:{port}/plain")).url == f"http://intranet:{port}/plain"


def test_ports_may_be_more_but_addresses_stay_public(pages: PagesServer) -> None:
    port = int(pages.place.partition(":")[2])
    with connections() as seen, pytest.raises(ToolError, match="not on the public internet"):
        asyncio.run(SsrfGuard(ports=(port,)).get(f"{pages.url}/plain"))
    assert seen == []


@pytest.mark.parametrize("allow", ["127.0.0.1", "http://127.0.0.1:80", "a b:80", "*:80", "a@b:80", "x:http", ":80", ""])
def test_what_cannot_be_allowed(allow: str) -> None:
    with pytest.raises(UsageError, match="is not a server; want host:port"):
        LinkContentFetcher(allow=[allow])


def test_nothing_of_the_environment_and_no_cookie_is_sent(pages: PagesServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    fetcher = LinkContentFetcher(allow=[pages.place])
    fetcher.run(f"{pages.url}/to?url=/good")
    assert pages.asked == ["/to", "/good"]
    assert not {"Cookie", "Authorization", "Referer", "Proxy-Authorization"} & set(pages.headers)


TLS = """
import asyncio, ssl, sys
from aiohttp import web
from retinue.net.ssrf_guard import SsrfGuard

async def main(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    app = web.Application()
    app.router.add_get("/", lambda request: asyncio.sleep(0, web.Response(text=request.host)))
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    for name in ("right.example", "wrong.example", "127.0.0.1"):
        client = SsrfGuard((f"{name}:{port}",), resolve=lambda host, port: asyncio.sleep(0, ["127.0.0.1"]))
        try:
            print((await client.get(f"https://{name}:{port}/")).data.decode().partition(":")[0])
        except Exception as error:
            print(type(error).__name__, "certificate" in str(error))
    await runner.cleanup()

asyncio.run(main(sys.argv[1]))
"""


def test_a_certificate_is_one_for_the_name_that_was_asked_for(tmp_path: Path) -> None:
    authority, server = certificate_for("right.example", tmp_path)
    environment = {**os.environ, "SSL_CERT_FILE": str(authority)}
    command = [sys.executable, "-c", TLS, str(server)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["right.example", "ToolError True", "ToolError True"]
    environment.pop("SSL_CERT_FILE")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["ToolError True"] * 3
