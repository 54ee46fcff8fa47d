"""Dispatch of runs to workers, with Temporal. The extra `temporal` has what it needs."""
