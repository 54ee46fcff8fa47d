"""What a tool is, how it is called, and what becomes of its result."""
