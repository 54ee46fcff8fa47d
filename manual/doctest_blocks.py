"""For the Python reference: an example in a docstring (`>>> …`) is a block of code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"(?:^|(?<=\n\n))>>> .*?(?=\n\n|\Z)", re.DOTALL)


class DoctestBlocks(Extension):
    """Puts fences around examples."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change what `obj` says of itself."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
