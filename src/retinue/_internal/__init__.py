"""Infrastructure that knows nothing about agents: threads, concurrency, redaction, containment. Not part of the API."""
