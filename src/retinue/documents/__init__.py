"""Documents: texts extracted from files and pages, split, stored and retrieved.

Names are imported on first use: web pages are read in a process that needs only `text_extraction`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .document_store import DocumentStore as DocumentStore
    from .folder_index import Indexed as Indexed, index_folder as index_folder

_MODULES = {"DocumentStore": "document_store", "Indexed": "folder_index", "index_folder": "folder_index"}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
