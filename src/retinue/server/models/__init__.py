"""Models by name, and those that embed and speak."""
