"""Entry point of `python -m retinue`."""

import sys

from .cli import main

sys.exit(main())
