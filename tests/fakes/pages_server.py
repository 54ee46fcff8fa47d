"""Pages as the web has them: good, broken, huge, slow, never ending, packed, wrongly labelled, redirecting.

with PagesServer() as server:
    ... LinkContentFetcher(allow=[server.place]).run(f"{server.url}/good") ...
    assert server.asked == ["/good"]
"""

from __future__ import annotations

import gzip
import zlib
from functools import cache
from typing import Any, Self

from aiohttp import web

from .loopback import Loopback

GOOD = (
    "<!doctype html><html><head><title>The {0} page</title><style>p {{}}</style><script>var x = 1;</script></head>"
    "<body><nav><a href=/>Home</a> <a href=/2>Next</a></nav><main><h1>The {0} page</h1><p>A first paragraph about "
    "{0}, long enough to be the text of a page.</p><p>A second one, with more.</p></main><footer>(c)</footer></body>"
)
ROOM = 5_000_000  # bytes that a fetcher has for a page, unless told otherwise


def pdf(text: str) -> bytes:
    """A PDF of one page with this text, and the title "A PDF"."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title (A PDF) >>",
    ]
    data, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    return data + head + b"trailer\n<< /Size 7 /Root 1 0 R /Info 6 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(data)


def _html(text: str, charset: str, *, said: str = "") -> web.Response:
    page = GOOD.format(text).encode(charset)
    return web.Response(body=page, headers={"Content-Type": f"text/html; charset={said}" if said else "text/html"})


def _packed(coding: str, data: bytes) -> web.Response:
    return web.Response(body=data, headers={"Content-Type": "text/html", "Content-Encoding": coding})


def _bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _typed(kind: str, data: bytes) -> web.Response:
    return web.Response(body=data, headers={"Content-Type": kind} if kind else {})


@cache
def _pages() -> dict[str, web.Response]:
    good, zeros = GOOD.format("packed").encode(), b"\0" * 4 * ROOM
    return {
        "/good": _html("good", "utf-8", said="utf-8"),
        "/other": _html("other", "utf-8"),
        "/gzip": _packed("gzip", gzip.compress(good)),
        "/deflate": _packed("deflate", zlib.compress(good)),
        "/bare-deflate": _packed("deflate", _bare(good)),
        "/brotli": _packed("br", b"\x8b\x02\x80good\x03"),
        "/twice": _packed("gzip, gzip", gzip.compress(gzip.compress(good))),
        "/broken-gzip": _packed("gzip", b"not packed at all"),
        "/gzip-bomb": _packed("gzip", gzip.compress(zeros)),
        "/deflate-bomb": _packed("deflate", zlib.compress(zeros)),
        "/huge": _typed("text/plain", b"x" * (ROOM + 1)),
        "/latin": _html("Grüße", "latin-1", said="iso-8859-1"),
        "/cyrillic": _html("Привет", "cp1251", said="windows-1251"),
        "/said-wrong": _html("Grüße", "utf-8", said="iso-8859-1"),
        "/said-nonsense": _html("Grüße", "utf-8", said="x-klingon"),
        "/japanese": _html("日本語", "iso2022_jp", said="iso-2022-jp"),
        "/broken": _typed("text/html", b"<p>An <b>unclosed <i>paragraph<p>and <td>more</b> &amp &#x110000; \xff <"),
        "/empty": _typed("text/html", b"<html></html>"),
        "/pdf": _typed("application/pdf", pdf("Text of a PDF.")),
        "/pdf-as-html": _typed("text/html", pdf("Text of a PDF.")),
        "/broken-pdf": _typed("application/pdf", b"%PDF-1.7\n1 0 obj <<"),
        "/plain": _typed("text/plain; charset=utf-8", "Plain äöü.".encode()),
        "/json": _typed("application/json", b'{"a": [1, 2]}'),
        "/xml": _typed("application/atom+xml", b"<feed><title>T</title></feed>"),
        "/untyped": _typed("", GOOD.format("untyped").encode()),
        "/image": _typed("image/png", b"\x89PNG\r\n\x1a\n\0\0\0"),
        "/image-as-html": _typed("text/html", b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR\0" * 20),
        "/nested": _typed("text/html", b"<div>" * 200_000 + b"x"),
        "/attributes": _typed("text/html", b"<a %s>x</a>" % b" ".join(b"a%d=1" % at for at in range(200_000))),
        "/404": web.Response(status=404, text="not here"),
        "/500": web.Response(status=500, text="broken"),
    }


class PagesServer:
    """The server, while its `with` lasts. `asked`: the paths that were asked for, in their order; `headers`:
    those of the last request. `/to?url=` redirects; `/loop` to itself; `/slow`, `/endless` and `/dripping` never end;
    `/wait` answers when `waiting` requests for it have come.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        self.waiting = 1
        app = web.Application()
        app.router.add_get("/{path:.*}", self._page)
        self._loopback = Loopback(app)

    @property
    def url(self) -> str:
        """Its address."""
        return self._loopback.url

    @property
    def place(self) -> str:
        """Its host and port, for `allow`."""
        return self.url.removeprefix("http://")

    def __enter__(self) -> Self:
        self._loopback.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loopback.stop()

    async def _page(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        self.headers = dict(request.headers)
        if request.path in _pages():
            return _copy(_pages()[request.path])
        if request.path in ("/to", "/loop"):
            location = request.query.get("url", "/loop")
            return web.Response(status=302, headers={"Location": location, "Set-Cookie": "a=b"})
        if request.path == "/wait":
            while self.asked.count("/wait") < self.waiting:  # the others are on their way
                await _turn()
            return _html(request.query.get("n", "waited"), "utf-8")
        if request.path not in ("/slow", "/endless", "/dripping"):
            return _copy(_pages()["/404"])
        return await self._endless(request)

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/slow":
            await self._loopback.closing.wait()
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        piece = b"x" * (65_536 if request.path == "/endless" else 1)
        try:
            while not self._loopback.closing.is_set():
                await response.write(piece)
                await _turn()
        except ConnectionError:
            pass
        return response


def _copy(page: web.Response) -> web.Response:
    body: Any = page.body
    headers = {name: value for name, value in page.headers.items() if name != "Content-Length"}
    return web.Response(status=page.status, body=body, headers=headers)


async def _turn() -> None:
    import asyncio

    await asyncio.sleep(0)
