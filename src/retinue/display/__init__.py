"""A run shown to a person, in a terminal or a notebook."""
