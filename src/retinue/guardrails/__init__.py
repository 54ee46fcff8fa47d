"""Ready-made guardrails: objects for `Agent(hooks=[…])`. Each is imported on first use."""

from typing import TYPE_CHECKING

from .._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from .reviewer import Reviewer as Reviewer
    from .text_guards import Injections as Injections, PersonalData as PersonalData, Secrets as Secrets
    from .user_rules import SpendPerDay as SpendPerDay, ToolsByUser as ToolsByUser

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
