"""Search the web, read the pages that were found, and let an agent do both.

    python examples/web_search.py                                    # a web of two pages on this machine
    python examples/web_search.py "When was the Eiffel Tower built?" # the real one, through Wikipedia: no key needed

For Google, `SearchEngine("serper")` with the key in SERPERDEV_API_KEY; for a model that thinks, `PromptModel("local")`
or any other in place of the script. Needs the extra: pip install 'retinue[web]'
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from retinue import Agent, PromptModel
from retinue.components import LinkContentFetcher, SearchEngine, WebRetriever

PAGES = {
    "/tower": "<title>Eiffel Tower</title><main><p>The tower was built from 1887 to 1889, for a fair.</p></main>",
    "/paris": "<title>Paris</title><main><p>Paris is the capital of France, on the river Seine.</p></main>",
}


class SmallWeb(BaseHTTPRequestHandler):
    """Answers as Wikipedia's search does, and has the two pages."""

    def do_GET(self) -> None:
        """Any address."""
        host = f"http://{self.headers['Host']}"
        found = [
            {"title": path.strip("/"), "fullurl": host + path, "extract": "…", "index": at}
            for at, path in enumerate(PAGES)
        ]
        is_page = self.path in PAGES
        body = PAGES[self.path] if is_page else json.dumps({"query": {"pages": found}})
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if is_page else "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


def ask(question: str, search: SearchEngine, fetcher: LinkContentFetcher) -> None:
    """Print what a search, a retriever and an agent with the retriever make of a question."""
    for document in search.run(question)["documents"]:
        print(f"{document.score:.2f} {document.meta['title']}: {document.content[:80]}")
    retriever = WebRetriever(search, "document", top_k=2, fetcher=fetcher)
    print(retriever.run(question)["results"])
    script = [
        {"when": "", "times": 1, "call": {"tool": "Web", "input": question}},
        {"finish": "It is in what I have read."},
    ]
    agent = Agent(PromptModel(script=script))
    agent.add_tool("Web", retriever, "finds texts on the web", effects="read")
    print(agent.run(question).answer)


def main() -> None:
    """The real web for a question on the command line, else the small one."""
    if sys.argv[1:]:
        ask(" ".join(sys.argv[1:]), SearchEngine("wikipedia", top_k=3), LinkContentFetcher())
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), SmallWeb)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"127.0.0.1:{server.server_port}"
    search = SearchEngine("wikipedia", top_k=3, base_url=f"http://{place}")
    ask("When was the Eiffel Tower built?", search, LinkContentFetcher(allow=[place]))  # private, so it is named
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
