"""A run of an agent: its specification, its events from the question to the result, its replay, its fork, its pin."""
