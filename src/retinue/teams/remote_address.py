"""Addresses of other servers, which are for the operator alone."""

from __future__ import annotations

import re
from urllib.parse import urlsplit


def without_address(text: str, url: str) -> str:
    """Return a message about the server at `url` without its address: models and clients may read it."""
    address = urlsplit(url)
    hidden = re.sub(rf"{re.escape(f'{address.scheme}://{address.netloc}')}[^\s:]*", "the other server", text)
    return hidden.replace(address.netloc, "the other server") if address.netloc else hidden
