"""The `retinue` command: one file a command, loaded when it is used."""

from .main import main

__all__ = ["main"]
