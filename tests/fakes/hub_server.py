"""A server that speaks as much of the Hugging Face hub's file protocol as `hf_hub_download` needs."""

from __future__ import annotations

import hashlib

from aiohttp import web

from .loopback import Served

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(Served):
    """The hub, while its `with` lasts; `HF_ENDPOINT` is its `url`.

    `files` are by `owner/repo/file`. `drop_after`: the next download breaks off after this many bytes.
    `status`: what each file is answered with instead. `ranges` and `revisions`: what each download asked for.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.drop_after: int | None = None
        self.status: int | None = None
        self.ranges: list[str] = []
        self.revisions: list[str] = []
        app = web.Application()
        app.router.add_route("*", "/{owner}/{repo}/resolve/{revision}/{file:.*}", self._file)
        app.router.add_get("/", self._home)
        super().__init__(app)

    async def _home(self, http: web.Request) -> web.Response:
        return web.Response(text="the hub")

    async def _file(self, http: web.Request) -> web.StreamResponse:
        name = "{owner}/{repo}/{file}".format(**http.match_info)
        if self.status is not None:
            return web.Response(status=self.status)
        if name not in self.files:
            return web.Response(status=404, headers={"X-Error-Code": "EntryNotFound"})
        content = self.files[name]
        etag = hashlib.sha256(content).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": _COMMIT, "Accept-Ranges": "bytes"}
        response = web.StreamResponse(headers=headers)
        response.content_length = len(content)
        if http.method == "HEAD":
            await response.prepare(http)
            return response
        return await self._download(http, response, content)

    async def _download(self, http: web.Request, response: web.StreamResponse, content: bytes) -> web.StreamResponse:
        self.ranges.append(http.headers.get("Range", ""))
        self.revisions.append(http.match_info["revision"])
        begin = http.http_range.start or 0
        if begin:
            response.set_status(206)
            response.headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        response.content_length = len(content) - begin
        drop, self.drop_after = self.drop_after, None
        await response.prepare(http)
        await response.write(content[begin:] if drop is None else content[begin : begin + drop])
        if drop is not None and http.transport is not None:
            http.transport.close()
        return response
