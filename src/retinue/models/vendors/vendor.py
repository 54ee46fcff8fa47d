"""What a vendor is, and the engine that is made of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from urllib.parse import urlsplit

from ...errors import UsageError
from ..engine import Format, HttpEngine
from ..settings import Settings
from . import COMPATIBLE


@dataclass(frozen=True, slots=True)
class Vendor:
    """An engine. `keys`: environment variables that may hold its API key; if empty, none is needed.

    `url` is its own address; the variable `environment` may override it. At another address than its own, the server's
    kind is detected if `detected` says which one to assume of a server that tells nothing. `connect` completes the
    settings with the address and the sign-in, where those depend on more than a key, and returns the format that suits
    the model; it raises `UsageError`.
    """

    title: str
    url: str
    format: Format
    keys: tuple[str, ...] = ()
    environment: str = ""
    detected: str | None = None
    connect: Callable[[Settings], tuple[Settings, Format]] | None = None


def find_vendor(name: str) -> Vendor:
    """Return the vendor called `name`, one of `NAMES`."""
    module = import_module(".compatible" if name in COMPATIBLE else f".{name}", __package__)
    vendor: Vendor = module.VENDORS[name] if name in COMPATIBLE else module.VENDOR
    return vendor


def make_engine(name: str, settings: Settings) -> HttpEngine:
    """Return the engine called `name`. Raises `UsageError` if its key or the model's name is missing."""
    vendor = find_vendor(name)
    form = vendor.format
    if vendor.connect is not None:
        settings, form = vendor.connect(settings)
    base_url = settings.base_url or os.environ.get(vendor.environment)
    key = settings.api_key or next((os.environ[name] for name in vendor.keys if os.environ.get(name)), None)
    if vendor.keys and not base_url:
        if not key:
            raise UsageError(
                f"{vendor.title} needs a key: set {' or '.join(vendor.keys)} (or name another server: base_url)"
            )
        if not settings.model:
            raise UsageError(f"{vendor.title} has many models; name one: {name}:MODEL")
    if form.chat.name == "chat" and settings.model.removeprefix("models/").startswith("gemini"):
        form = import_module(".gemini", __package__).sign_others(form)
    if settings.api == "completions" and form.completions is None:
        raise UsageError(f"{vendor.title} has no completions; omit `api`")
    if settings.api == "responses" and form.responses is None:
        raise UsageError(f"{vendor.title} has no Responses API; omit `api`")
    if base_url and vendor.detected is not None and urlsplit(vendor.url).netloc not in base_url:
        form = replace(form, dialect="", fallback=vendor.detected, suits=lambda model: False)
    return HttpEngine(replace(settings, base_url=base_url or vendor.url, api_key=key), form)
