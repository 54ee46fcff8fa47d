"""What a forked child starts anew: threads, event loops and locks of the parent do not run there.

A child of `os.fork`, of multiprocessing's "fork" or of a server with preloaded workers inherits the objects, but only
the thread that forked. Waiting for another thread, or for a lock that it held, would never end. Whatever starts a
thread, or holds a lock for long, registers what makes it usable again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import MethodType
from weakref import WeakMethod


def in_forked_child(reset: Callable[[], None]) -> None:
    """Call `reset` in each forked child, before anything else runs there. A method is called while its object lives."""
    if not hasattr(os, "register_at_fork"):
        return
    if not isinstance(reset, MethodType):
        os.register_at_fork(after_in_child=reset)
        return
    method = WeakMethod(reset)

    def reset_object() -> None:
        if (found := method()) is not None:
            found()

    os.register_at_fork(after_in_child=reset_object)


def keep_from_parent(inherited: object) -> None:
    """Never collect an object of the parent in this child, not even as it ends: closing it would wait for threads that
    do not run here, or change what the parent uses."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
