"""The pages of the server's APIs: their Python works, with the server of docs/responses.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from docs.test_docs import ROOT, blocks, run
from fakes.served import Served, serving

PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("responses", "conversations", "files", "server", "streams")
}
CODES = [
    pytest.param(code, id=f"{name}-{at}", marks=[pytest.mark.model] if "minilm" in code else [])
    for name, page in PAGES.items()
    for at, code in enumerate(blocks(page, "py"))
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    (text,) = blocks(PAGES["responses"], "yaml")
    folder = tmp_path_factory.mktemp("page")
    (folder / "tables.py").write_text('def book(place):\n    return f"{place} is booked"\n')
    with serving(folder, text) as server:
        yield server


@pytest.mark.full
@pytest.mark.parametrize("code", CODES)
def test_its_python_runs(code: str, server: Served) -> None:
    run(code, {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}, "DeprecationWarning", "ResourceWarning")
