"""Documents: texts out of files and pages, cut into pieces, kept and found again."""

from .indexing import Indexed, index_folder
from .store import DocumentStore

__all__ = ["DocumentStore", "Indexed", "index_folder"]
