"""The `retinue` command: one module per subcommand, imported on use."""

from .main import main

__all__ = ["main"]
