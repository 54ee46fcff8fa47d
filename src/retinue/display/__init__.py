"""Displays a run to a person, in a terminal or a notebook."""
