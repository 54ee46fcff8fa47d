"""Agent2Agent (A2A) 1.0: a task is a run, and a context is a thread."""
