"""Parts of prompts: tools, constraints, conversations, and tool results as data."""
