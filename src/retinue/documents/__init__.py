"""Documents: texts extracted from files and pages, split, stored and retrieved.

Names are imported on first use: web pages are read in a process that needs only `text_extraction`.
"""

from typing import TYPE_CHECKING

from .._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from .document_store import DocumentStore as DocumentStore
    from .folder_index import Indexed as Indexed, index_folder as index_folder

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
