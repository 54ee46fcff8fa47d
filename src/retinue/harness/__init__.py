"""What agents need for long work: a workspace, a shell, skills, a list of what is to do, and helpers."""

from typing import TYPE_CHECKING

from .._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from .harness import Harness as Harness, open_folder as open_folder, wants_workspace as wants_workspace
    from .helpers import Helpers as Helpers
    from .sandbox import Sandbox as Sandbox
    from .todos import Todo as Todo, fold_todos as fold_todos

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
