"""Documents: texts out of files and pages, cut into pieces, kept and found again.

Nothing is imported until it is used: a page of the web is read in a process that needs `text_extraction` only.
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
