"""Plumbing without any notion of agents: threads, concurrency, redaction, containment. Not part of the API."""
