"""Breakages planted on purpose, one at a time, by which the suite shows that it finds such."""
